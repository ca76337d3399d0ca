#include "exec/checkpoint/folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "exec/checkpoint/checksum.hpp"
#include "exec/checkpoint/manifest.hpp"

namespace rehearsal::exec {
namespace {

namespace fs = std::filesystem;

constexpr const char *kFolderStep = "step-", *kBest = "best", *kUnfinished = ".unfinished", *kLock = "lock";

struct FoundCheckpoint {
  PlaceInFolder in_folder;
  std::int64_t step = 0;
  fs::path place;
};

/// Folders that are a checkpoint each; links are none.
std::vector<fs::path> places_in(const fs::path& folder) {
  std::vector<fs::path> places;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(kFolderStep) && !name.ends_with(kUnfinished) && !entry.is_symlink(ignored) &&
        fs::exists(entry.path() / kManifest, ignored))
      places.push_back(entry.path());
  }
  std::ranges::sort(places);
  return places;
}

FoundCheckpoint read(const fs::path& place) {
  const auto manifest = read_manifest(place);
  try {
    return {place_in_folder(manifest), header_of(manifest).step, place};
  } catch (const nlohmann::json::exception& error) {
    throw BadInput((place / kManifest).string(), std::string("is damaged: ") + error.what());
  }
}

bool before(const FoundCheckpoint& a, const FoundCheckpoint& b) {
  return std::tie(a.in_folder.number, a.step) < std::tie(b.in_folder.number, b.step);
}

/// In the order in which they were written. What is damaged is nobody's to count or remove.
std::vector<FoundCheckpoint> readable_in(const fs::path& folder) {
  std::vector<FoundCheckpoint> found;
  for (const auto& place : places_in(folder)) try {
      found.push_back(read(place));
    } catch (const BadInput&) {
      continue;
    }
  std::ranges::sort(found, before);
  return found;
}

[[noreturn]] void fail(const fs::path& folder, const std::string& what, int error) {
  throw EnvironmentFailure("--checkpoint " + folder.string() + ": " + what + ": " + std::strerror(error));
}

std::string own_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return "process " + std::to_string(::getpid()) + " on " + host.data();
}

/// Unlike that of any other training.
std::string new_training() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return checksum_of(own_name() + " at " + std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()));
}

std::string first_line(const fs::path& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line.empty() ? "another process" : line;
}

bool is_same_file(int descriptor, const fs::path& path) {
  struct stat open {
  }, there{};
  return ::fstat(descriptor, &open) == 0 && ::stat(path.c_str(), &there) == 0 && open.st_ino == there.st_ino && open.st_dev == there.st_dev;
}

}  // namespace

fs::path newest_checkpoint(const std::string& folder, const std::string& flag) {
  if (!fs::exists(folder)) throw BadInput(flag + " " + folder, "does not exist");
  std::vector<FoundCheckpoint> found;
  if (fs::exists(fs::path(folder) / kManifest)) found.push_back({{}, 0, folder});
  for (const auto& place : places_in(folder)) found.push_back(read(place));
  if (found.empty())
    throw BadInput(flag + " " + folder,
                   std::string("holds no checkpoint: there is no ") + kManifest + " in it or in a folder step-N of it");
  return std::ranges::max_element(found, before)->place;
}

std::vector<std::string> checkpoints_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& place : places_in(folder)) names.push_back(place.filename().string());
  return names;
}

bool is_checkpoint_of(const std::string& folder, const std::string& place) {
  if (folder.empty() || place.empty()) return false;
  const auto whole = [](const std::string& path) {
    auto found = fs::weakly_canonical(path);
    return found.has_filename() ? found : found.parent_path();  // a slash at the end
  };
  return whole(place) == whole(folder) || whole(place).parent_path() == whole(folder);
}

fs::path unfinished_checkpoint(const fs::path& home, std::int64_t step) {
  return home / (kFolderStep + std::to_string(step) + kUnfinished);
}

CheckpointFolder::CheckpointFolder(std::string folder, const std::string& goes_on_with) : folder_(fs::path(folder).lexically_normal()) {
  if (!folder_.has_filename()) folder_ = folder_.parent_path();  // a slash at the end
  training_ = goes_on_with.empty() ? new_training() : read(newest_checkpoint(goes_on_with, "--resume")).in_folder.training;
  lock();
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(home_, ignored))
    if (entry.path().filename().string().ends_with(kUnfinished)) fs::remove_all(entry.path(), ignored);
}

CheckpointFolder::~CheckpointFolder() {
  ::unlink((home_ / kLock).c_str());
  ::close(lock_);
  if (home_ != folder_) ::rmdir(home_.c_str());
}

void CheckpointFolder::make_home() {
  std::error_code failed;
  const bool there = fs::exists(folder_, failed);
  if (there && !fs::is_directory(folder_, failed)) throw BadInput("--checkpoint " + folder_.string(), "is a file; give a folder");
  home_ = there ? folder_ : fs::path(folder_.string() + kUnfinished);
  fs::create_directories(home_, failed);
  if (failed) fail(folder_, "cannot be created", failed.value());
}

bool CheckpointFolder::took_lock() {
  make_home();
  const auto file = home_ / kLock;
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) fail(folder_, "cannot be written to", errno);
  const bool refused = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;  // a file system without locks has none to ask
  const bool moved = home_ != folder_ && fs::exists(folder_);
  if (refused || moved || !is_same_file(descriptor, file)) {
    ::close(descriptor);
    return false;
  }
  lock_ = descriptor;
  return true;
}

/// The lock ends with the process, whatever ends it: what lies there without a process that holds it means nothing.
void CheckpointFolder::lock() {
  constexpr int kAttempts = 40;
  constexpr auto kPause = std::chrono::milliseconds(50);  // a job that was just ended may take a moment to be gone
  for (int attempt = 0; !took_lock(); ++attempt) {
    if (attempt >= kAttempts)
      throw BadInput("--checkpoint " + folder_.string(),
                     first_line(home_ / kLock) + " writes to it; give this training a folder of its own");
    std::this_thread::sleep_for(kPause);
  }
  const auto owner = own_name() + "\n";
  // Only messages say who holds it: on a full disk they know less.
  [[maybe_unused]] const bool told = ::ftruncate(lock_, 0) == 0 && ::write(lock_, owner.data(), owner.size()) > 0;
}

PlaceInFolder CheckpointFolder::next_place() const {
  const auto found = readable_in(home_);
  return {found.empty() ? 1 : found.back().in_folder.number + 1, training_};
}

/// Another training may have left a checkpoint of the same step, which stays until this one is whole.
fs::path CheckpointFolder::free_place(std::int64_t step) const {
  const auto name = kFolderStep + std::to_string(step);
  auto place = home_ / name;
  for (int copy = 2; fs::exists(place); ++copy) place = home_ / (name + "." + std::to_string(copy));
  return place;
}

void CheckpointFolder::take(const Finished& finished, int keep) {
  const auto place = free_place(finished.step);
  std::error_code failed;
  fs::rename(unfinished_checkpoint(home_, finished.step), place, failed);
  if (!failed && finished.best) link_best(place);
  if (!failed && home_ != folder_) {
    fs::rename(home_, folder_, failed);
    if (!failed) home_ = folder_;
  }
  if (failed) fail(folder_, "cannot be put in place", failed.value());
  remove_older(keep);
}

void CheckpointFolder::link_best(const fs::path& checkpoint) {
  const auto fresh = home_ / (std::string(kBest) + kUnfinished);
  std::error_code failed;
  fs::remove(fresh, failed);
  fs::create_directory_symlink(checkpoint.filename(), fresh, failed);
  if (!failed) fs::rename(fresh, home_ / kBest, failed);
  if (failed) fail(home_ / kBest, "cannot be linked to", failed.value());
}

void CheckpointFolder::remove_older(int keep) {
  auto found = readable_in(home_);
  std::erase_if(found, [&](const FoundCheckpoint& f) { return f.in_folder.training != training_; });
  std::error_code ignored;
  const auto best = fs::read_symlink(home_ / kBest, ignored);
  if (found.size() <= static_cast<std::size_t>(keep)) return;
  found.resize(found.size() - static_cast<std::size_t>(keep));
  for (const auto& old : found) {
    if (old.place.filename() == best) continue;
    const auto condemned = old.place.string() + kUnfinished;  // half of it removed is no checkpoint
    fs::rename(old.place, condemned, ignored);
    fs::remove_all(condemned, ignored);
  }
}

}  // namespace rehearsal::exec
