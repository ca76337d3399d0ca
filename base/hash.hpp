#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rehearsal {

/// Incremental 64-bit hash for identities of models, plans and kernels (not for security).
/// Reference: FNV-1a (Fowler, Noll, Vo), 64-bit parameters.
class Hasher {
 public:
  Hasher& add(const void* data, std::size_t bytes) {
    const auto* p = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) state_ = (state_ ^ p[i]) * 0x100000001B3ULL;
    return *this;
  }
  Hasher& add(std::string_view text) { return add(static_cast<std::int64_t>(text.size())).add(text.data(), text.size()); }
  Hasher& add(std::int64_t number) { return add(&number, sizeof number); }
  [[nodiscard]] std::uint64_t value() const { return state_; }
  /// 16 hexadecimal digits.
  [[nodiscard]] std::string text() const {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string out(16, '0');
    for (int i = 0; i < 16; ++i) out[static_cast<std::size_t>(i)] = kDigits[(state_ >> (60 - 4 * i)) & 15U];
    return out;
  }

 private:
  std::uint64_t state_ = 0xCBF29CE484222325ULL;
};

}  // namespace rehearsal
