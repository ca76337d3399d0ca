#pragma once
// Files of samples, read in parts.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rehearsal::exec {

/// Open for reading from the middle, by several threads at once.
class StoredFile {
 public:
  /// Throws BadInput when it is missing, a folder, or cannot be read.
  explicit StoredFile(std::string path);
  ~StoredFile();
  StoredFile(const StoredFile&) = delete;
  StoredFile& operator=(const StoredFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Throws BadInput when the file ends before that, EnvironmentFailure when the disk fails.
  void read(std::int64_t offset, std::span<std::byte> to) const;
  [[nodiscard]] std::vector<std::byte> bytes() const;

 private:
  std::string path_;
  int handle_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace rehearsal::exec
