// TernGrad (Wen et al., NeurIPS 2017, equations 1 to 3): of a gradient g with s = max |g| a rank sends s and, for every element, its sign
// with probability |g| / s, else 0. The sum over the ranks is g's on average.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/random.hpp"
#include "exec/host/compressors/bits.hpp"
#include "exec/host/compressors/blocks.hpp"
#include "exec/host/compressors/compressor.hpp"

namespace rehearsal::exec {
namespace {

constexpr int kTernaryBits = 2;  // 0: 0, 1: positive, 2: negative

template <class T>
T largest_of(const T* gradient, std::int64_t elements) {
  T largest = 0;
#pragma omp parallel for schedule(static) reduction(max : largest)
  for (std::int64_t e = 0; e < elements; ++e) largest = std::max(largest, std::abs(gradient[e]));
  return largest;
}

template <class T>
void send_ternary(const CompressorTask& task, const T* gradient, std::byte* sent) {
  const T largest = largest_of(gradient, task.elements);
  std::memcpy(sent, &largest, sizeof largest);
  each_block(task.elements, [&](std::int64_t b, std::int64_t first, std::int64_t end) {
    BitWriter bits(sent + sizeof largest + code_offset(b, kTernaryBits));
    for (auto e = first; e < end; ++e) {
      const double drawn = random_uniform(task.step_seed, task.own_stream, static_cast<std::uint64_t>(e));
      const bool kept = drawn * static_cast<double>(largest) < std::abs(static_cast<double>(gradient[e]));
      bits.put(!kept ? 0U : gradient[e] > 0 ? 1U : 2U, kTernaryBits);
    }
    bits.finish();
  });
}

template <class T>
void add_ternary(const CompressorTask& task, std::span<const std::byte* const> sent, T* sum) {
  each_block(task.elements, [&](std::int64_t b, std::int64_t first, std::int64_t end) {
    std::fill(sum + first, sum + end, T(0));
    for (const auto* from : sent) {
      T largest;
      std::memcpy(&largest, from, sizeof largest);
      const std::array<T, 3> decoded{T(0), largest, -largest};
      BitReader bits(from + sizeof largest + code_offset(b, kTernaryBits));
      for (auto e = first; e < end; ++e) sum[e] += decoded[bits.take(kTernaryBits)];
    }
  });
}

}  // namespace

CompressorCodes terngrad_code() {
  return {plan::CompressionRule::TernGrad, {send_ternary<float>, add_ternary<float>}, {send_ternary<double>, add_ternary<double>}};
}

}  // namespace rehearsal::exec
