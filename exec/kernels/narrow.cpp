#include "exec/kernels/narrow.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace rehearsal::exec {
namespace {

float of_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);  // not a number, and quiet
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

/// Exponent and fraction move to their places in f32; the factor 2^112 corrects the exponent's bias, of subnormal numbers too.
float of_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U, rest = static_cast<std::uint32_t>(bits & 0x7FFFU) << 13U;
  if (rest >= 0x0F800000U) return std::bit_cast<float>(sign | 0x7F800000U | (rest & 0x007FE000U));
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) * 0x1p112F));
}

std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const std::uint32_t rest = bits & 0x7FFFFFFFU;
  if (rest > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (rest >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // 65520: halfway to 2^16
  if (rest < 0x38800000U) {                                                    // below 2^-14: 0.5 has the subnormal's unit as its last bit
    const float shifted = std::bit_cast<float>(rest) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U));
  }
  return static_cast<std::uint16_t>(sign | ((rest - 0x38000000U + 0xFFFU + ((rest >> 13U) & 1U)) >> 13U));
}

template <auto kConvert, class From, class To>
void convert(const From* from, To* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = kConvert(from[i]);
}

}  // namespace

void widen(const void* from, DType type, float* to, std::int64_t count) {
  const auto* bits = static_cast<const std::uint16_t*>(from);
  type == DType::BF16 ? convert<of_bf16>(bits, to, count) : convert<of_f16>(bits, to, count);
}

void narrow(const float* from, DType type, void* to, std::int64_t count) {
  auto* bits = static_cast<std::uint16_t*>(to);
  type == DType::BF16 ? convert<to_bf16>(from, bits, count) : convert<to_f16>(from, bits, count);
}

void add_narrow(void* sum, const void* addend, DType type, std::int64_t count) {
  constexpr std::int64_t kBlock = 1024;
  float a[kBlock], b[kBlock];
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const auto n = std::min(kBlock, count - first);
    auto* to = static_cast<std::uint16_t*>(sum) + first;
    widen(to, type, a, n);
    widen(static_cast<const std::uint16_t*>(addend) + first, type, b, n);
    for (std::int64_t i = 0; i < n; ++i) a[i] += b[i];
    narrow(a, type, to, n);
  }
}

}  // namespace rehearsal::exec
