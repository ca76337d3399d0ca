// 1-bit Adam (Tang et al., ICML 2021, section 4): of a vector its signs travel, and the mean of its absolute values, of which it is made
// again. There one mean is of a whole tensor, here of a block of elements.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "exec/host/compressors/block_code.hpp"

namespace rehearsal::exec {
namespace {

constexpr std::int64_t kBits = 8;  ///< of a byte: the first element's is the lowest

template <class T>
void write_signs(const BlockTask& /*task*/, const T* block, std::int64_t elements, std::byte* to) {
  double sum = 0;
  for (std::int64_t e = 0; e < elements; ++e) sum += std::abs(static_cast<double>(block[e]));
  const auto scale = static_cast<T>(sum / static_cast<double>(elements));
  std::memcpy(to, &scale, sizeof scale);
  auto* signs = to + sizeof scale;
  for (std::int64_t first = 0; first < elements; first += kBits) {
    unsigned byte = 0;
    const auto count = std::min(kBits, elements - first);
    for (std::int64_t k = 0; k < count; ++k) byte |= (block[first + k] < 0 ? 1U : 0U) << static_cast<unsigned>(k);
    *signs++ = static_cast<std::byte>(byte);
  }
}

template <class T>
void add_signs(const BlockTask& /*task*/, const std::byte* from, std::int64_t elements, T* sum) {
  T scale;
  std::memcpy(&scale, from, sizeof scale);
  const auto* signs = from + sizeof scale;
  const std::array<T, 2> of_sign{scale, -scale};
  for (std::int64_t first = 0; first < elements; first += kBits, ++signs) {
    const auto byte = std::to_integer<unsigned>(*signs);
    const auto count = std::min(kBits, elements - first);
    for (std::int64_t k = 0; k < count; ++k) sum[first + k] += of_sign[byte >> static_cast<unsigned>(k) & 1U];
  }
}

template <class T>
constexpr BlockCode<T> kSigns{write_signs<T>, add_signs<T>};

}  // namespace

BlockCodes one_bit_adam_code() {
  return {plan::CompressionRule::OneBitAdam, {kSigns<float>, kSigns<float>}, {kSigns<double>, kSigns<double>}};
}

}  // namespace rehearsal::exec
