#pragma once
// Tells bytes that changed from those that were written.

#include <memory>
#include <string>
#include <string_view>

namespace rehearsal::exec {

/// XXH3, 64 bits, of bytes that come piece by piece.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  Checksum& add(std::string_view bytes);
  /// 16 hexadecimal digits.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] inline std::string checksum_of(std::string_view bytes) { return Checksum().add(bytes).text(); }

}  // namespace rehearsal::exec
