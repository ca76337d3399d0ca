#include "base/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"

namespace rehearsal {
namespace {

[[noreturn]] void refuse(const std::string& path, int error) {
  throw EnvironmentFailure("cannot write " + path + ": " + std::strerror(error));
}

void write_all(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const auto written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse(path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// A temporary file that disappears unless it was renamed.
class Temporary {
 public:
  explicit Temporary(const std::string& target)
      : target_(target), path_(target + ".XXXXXX"), descriptor_(::mkostemp(path_.data(), O_CLOEXEC)) {
    if (descriptor_ < 0) refuse(target_, errno);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!renamed_) ::unlink(path_.c_str());
  }

  void write(std::string_view bytes) { write_all(descriptor_, bytes, target_); }

  void finish() {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(descriptor_, 0666 & ~mask) != 0 || ::fsync(descriptor_) != 0) refuse(target_, errno);
    const int closed = ::close(descriptor_);
    descriptor_ = -1;
    if (closed != 0 || ::rename(path_.c_str(), target_.c_str()) != 0) refuse(target_, errno);
    renamed_ = true;
  }

 private:
  std::string target_, path_;
  int descriptor_;
  bool renamed_ = false;
};

/// The new name itself survives a power failure only after this; file systems without it (EINVAL) have nothing to flush.
void flush_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

/// Behind symbolic links, so that the link stays, whether there is something behind it yet or not.
std::string behind_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::error_code error;
  std::filesystem::path target = path;
  for (int n = 0; n < kMostLinks && std::filesystem::is_symlink(target, error); ++n)
    target = folder_of(target) / std::filesystem::read_symlink(target, error);
  if (std::filesystem::is_symlink(target, error)) refuse(path, ELOOP);
  return target.string();
}

/// What is no file of a disk stays what it is: a device, a pipe, or whatever the standard output is.
void write_into(const std::string& path, std::string_view bytes) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor < 0) refuse(path, errno);
  try {
    write_all(descriptor, bytes, path);
  } catch (const Error&) {
    ::close(descriptor);
    throw;
  }
  if (::close(descriptor) != 0) refuse(path, errno);
}

}  // namespace

bool is_replaceable(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return true;
  if (!std::filesystem::is_regular_file(status)) return false;
  constexpr std::string_view kOpen[] = {"/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/"};  // a file that somebody has open
  return std::ranges::none_of(kOpen, [&](std::string_view beginning) { return path.starts_with(beginning); });
}

void require_place(const std::string& path) {
  std::error_code error;
  if (path.empty() || std::filesystem::is_directory(path, error))
    throw BadInput(path.empty() ? "''" : path, "is a folder or no name; name a file");
  const auto folder = folder_of(behind_links(path));
  if (!std::filesystem::is_directory(folder, error)) throw BadInput(path, "the folder " + folder.string() + " does not exist");
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  require_place(path);
  if (!is_replaceable(path)) return write_into(path, bytes);
  const auto target = behind_links(path);
  Temporary file(target);
  file.write(bytes);
  file.finish();
  flush_folder(folder_of(target));
}

}  // namespace rehearsal
