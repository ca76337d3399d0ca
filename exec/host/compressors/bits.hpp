#pragma once
// Numbers of a few bits, one behind the other, the lowest bit of a byte first.

#include <cstddef>
#include <cstdint>

namespace rehearsal::exec {

class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : to_(to) {}
  /// `value` has no more than `bits` bits, of which there are at most 8.
  void put(unsigned value, int bits) {
    waiting_ |= static_cast<std::uint32_t>(value) << count_;
    for (count_ += bits; count_ >= kByte; count_ -= kByte, waiting_ >>= kByte) *to_++ = static_cast<std::byte>(waiting_ & 0xFFU);
  }
  void finish() {
    if (count_ > 0) *to_++ = static_cast<std::byte>(waiting_);
    waiting_ = 0, count_ = 0;
  }

 private:
  static constexpr int kByte = 8;
  std::byte* to_;
  std::uint32_t waiting_ = 0;
  int count_ = 0;
};

class BitReader {
 public:
  explicit BitReader(const std::byte* from) : from_(from) {}
  [[nodiscard]] unsigned take(int bits) {
    for (; count_ < bits; count_ += kByte) waiting_ |= static_cast<std::uint32_t>(*from_++) << count_;
    const unsigned value = waiting_ & ((1U << bits) - 1U);
    waiting_ >>= bits;
    count_ -= bits;
    return value;
  }

 private:
  static constexpr int kByte = 8;
  const std::byte* from_;
  std::uint32_t waiting_ = 0;
  int count_ = 0;
};

}  // namespace rehearsal::exec
