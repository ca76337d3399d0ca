#include "exec/bench/storage.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "base/cpu_time.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/comm/usable_cores.hpp"
#include "exec/data/pictures/picture_input.hpp"
#include "exec/data/stored_file.hpp"

namespace rehearsal::exec::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 20'000;
constexpr std::int64_t kFirstBytes = 4096;
constexpr double kLatencyShare = 0.25, kReadingShare = 0.4, kDecodingShare = 0.35;  // of the time
constexpr int kPictureSide = 224;
constexpr double kPixelBytes = 3;

std::vector<std::string> files_below(const std::string& folder) {
  if (!fs::is_directory(folder)) throw BadInput("--storage " + folder, "is no folder; name one that holds files as you train on");
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied)) {
    if (entry.is_regular_file() && entry.file_size() > 0) files.push_back(entry.path().string());
    if (files.size() == kMostFiles) break;
  }
  if (files.empty()) throw BadInput("--storage " + folder, "holds no files; name a folder with files as you train on");
  // Neighbours of a folder lie beside each other: a fixed step far from 1 takes them apart.
  std::sort(files.begin(), files.end());
  std::vector<std::string> mixed;
  std::size_t step = files.size() / 2 + 1;
  while (std::gcd(step, files.size()) != 1) ++step;
  for (std::size_t n = 0; n < files.size(); ++n) mixed.push_back(files[n * step % files.size()]);
  return mixed;
}

/// Tells the kernel to keep nothing of it. What was just written has to be on the disk before.
void forget(const std::string& path) {
  const int handle = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (handle < 0) return;
  (void)::fdatasync(handle);
  (void)::posix_fadvise(handle, 0, 0, POSIX_FADV_DONTNEED);
  ::close(handle);
}

Seconds latency_of(const std::vector<std::string>& files, double seconds) {
  std::vector<double> times;
  std::vector<std::byte> first(kFirstBytes);
  const double end = now_seconds() + seconds;
  for (std::size_t n = 0; n < files.size() && (times.empty() || now_seconds() < end); ++n) {
    forget(files[n]);
    const double begin = now_seconds();
    const StoredFile file(files[n]);
    file.read(0, std::span(first).first(static_cast<std::size_t>(std::min(kFirstBytes, file.size()))));
    times.push_back(now_seconds() - begin);
  }
  return Seconds(median_of(times));
}

/// `work(file)` on so many threads, file by file, again from the first one on while there is time; every thread does at least one.
template <class Work>
void on_threads(std::size_t count, const std::vector<std::string>& files, double seconds, const Work& work) {
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const double end = now_seconds() + seconds;
  const auto serve = [&](std::size_t thread) {
    try {
      do work(thread, files[next++ % files.size()]);
      while (now_seconds() < end);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t n = 0; n < count; ++n) threads.emplace_back(serve, n);
  threads.clear();
  if (failure) std::rethrow_exception(failure);
}

/// What one thread did.
struct Done {
  double amount = 0, seconds = 0;
};

/// Of the threads together, each at its own pace.
double rate_of(const std::vector<Done>& threads) {
  double rate = 0;
  for (const auto& done : threads) rate += done.seconds > 0 ? done.amount / done.seconds : 0;
  return rate;
}

BytesPerSecond bandwidth_of(const std::vector<std::string>& files, double seconds) {
  constexpr std::size_t kReaders = 16;
  std::vector<Done> done(std::max(kReaders, static_cast<std::size_t>(cores_of_node())));
  on_threads(done.size(), files, seconds, [&](std::size_t thread, const std::string& path) {
    forget(path);
    const double begin = now_seconds();
    done[thread].amount += static_cast<double>(StoredFile(path).bytes().size());
    done[thread].seconds += now_seconds() - begin;
  });
  return BytesPerSecond(rate_of(done));
}

bool is_jpeg(const std::string& path) {
  const StoredFile file(path);
  std::array<std::byte, 3> first{};
  if (file.size() < static_cast<std::int64_t>(first.size())) return false;
  file.read(0, first);
  return first == std::array{std::byte{0xFF}, std::byte{0xD8}, std::byte{0xFF}};
}

std::vector<std::string> pictures_of(const std::vector<std::string>& files) {
  constexpr std::size_t kEnough = 500;
  std::vector<std::string> found;
  for (const auto& path : files) {
    if (found.size() < kEnough && is_picture_name(path) && is_jpeg(path)) found.push_back(path);
  }
  return found;
}

std::optional<BytesPerSecond> decoding_of(const std::vector<std::string>& files, double seconds) {
  const auto pictures = pictures_of(files);
  if (pictures.empty()) return std::nullopt;
  const WantedTensor wanted{"image", {DType::F32, {1, 3, kPictureSide, kPictureSide}}};
  const PictureInput input(wanted, {}, pictures.front());
  std::vector<Done> done(static_cast<std::size_t>(cores_of_node()));
  on_threads(done.size(), pictures, seconds, [&](std::size_t thread, const std::string& path) {
    std::vector<float> out(3 * kPictureSide * kPictureSide);
    const auto bytes = StoredFile(path).bytes();
    const PictureBytes picture{bytes, path};
    const auto size = size_of(picture);
    const double begin = thread_seconds();
    input.read(picture, {}, out.data());
    done[thread].seconds += thread_seconds() - begin;
    done[thread].amount += kPixelBytes * size.width * size.height;
  });
  return BytesPerSecond(rate_of(done) / static_cast<double>(done.size()));
}

}  // namespace

StorageLimits measure_storage(const std::string& folder, double seconds, Progress& progress) {
  const auto files = files_below(folder);
  StorageLimits limits;
  limits.files = static_cast<std::int64_t>(files.size());
  limits.latency = latency_of(files, seconds * kLatencyShare);
  progress.advance("s of reading", seconds * kLatencyShare, seconds);
  limits.bandwidth = bandwidth_of(files, seconds * kReadingShare);
  progress.advance("s of reading", seconds * (kLatencyShare + kReadingShare), seconds);
  limits.decoding = decoding_of(files, seconds * kDecodingShare);
  return limits;
}

}  // namespace rehearsal::exec::bench
