#include "exec/data/stored_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::exec {

StoredFile::StoredFile(std::string path) : path_(std::move(path)) {
  handle_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  const int why = errno;
  if (handle_ < 0 && (why == EMFILE || why == ENFILE))
    throw EnvironmentFailure(path_ + ": too many files are open; raise the limit (ulimit -n)");
  if (handle_ < 0) throw BadInput(path_, why == ENOENT ? "does not exist" : "cannot be read (" + std::string(std::strerror(why)) + ")");
  struct stat status {};
  const bool known = ::fstat(handle_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(handle_);
    throw BadInput(path_, "is no file");
  }
  size_ = status.st_size;
}

StoredFile::~StoredFile() { ::close(handle_); }

void StoredFile::read(std::int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const auto n = ::pread(handle_, to.data(), to.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw EnvironmentFailure(path_ + ": reading failed (" + std::strerror(errno) + ")");
    if (n == 0) throw BadInput(path_, "is truncated: it ends at byte " + std::to_string(offset));
    offset += n;
    to = to.subspan(static_cast<std::size_t>(n));
  }
}

std::vector<std::byte> StoredFile::bytes() const {
  std::vector<std::byte> all(static_cast<std::size_t>(size_));
  read(0, all);
  return all;
}

}  // namespace rehearsal::exec
