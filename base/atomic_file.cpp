#include "base/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"

namespace rehearsal {
namespace {

[[noreturn]] void refuse(const std::string& path, int error) {
  throw EnvironmentFailure("cannot write " + path + ": " + std::strerror(error));
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

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) refuse(target_, errno);
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }

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

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

/// The new name itself survives a power failure only after this; file systems without it (EINVAL) have nothing to flush.
void flush_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

void require_place(const std::string& path) {
  std::error_code error;
  if (path.empty() || std::filesystem::is_directory(path, error))
    throw BadInput(path.empty() ? "''" : path, "is a folder or no name; name a file");
  const auto folder = folder_of(path);
  if (!std::filesystem::is_directory(folder, error)) throw BadInput(path, "the folder " + folder.string() + " does not exist");
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  require_place(path);
  Temporary file(path);
  file.write(bytes);
  file.finish();
  flush_folder(folder_of(path));
}

}  // namespace rehearsal
