#pragma once
// Parts of a kernel's scratch memory, one behind another, each where the libraries want it.

#include <cstddef>
#include <cstdint>

namespace rehearsal::exec::cuda {

[[nodiscard]] inline std::int64_t rounded_up(std::int64_t number, std::int64_t to) { return (number + to - 1) / to * to; }

class WorkspaceParts {
 public:
  /// Where the part begins behind begin().
  std::int64_t add(std::int64_t bytes) {
    const auto at = bytes_;
    bytes_ += rounded_up(bytes, kAligned);
    return at;
  }
  /// Of all parts, wherever the memory begins.
  [[nodiscard]] std::int64_t bytes() const { return bytes_ + kAligned; }
  /// The first part in memory of so many bytes.
  [[nodiscard]] static std::byte* begin(void* workspace) {
    return reinterpret_cast<std::byte*>(rounded_up(reinterpret_cast<std::intptr_t>(workspace), kAligned));
  }

 private:
  static constexpr std::int64_t kAligned = 256;  // else cublasLtMatmul refuses its workspace
  std::int64_t bytes_ = 0;
};

}  // namespace rehearsal::exec::cuda
