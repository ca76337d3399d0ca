// 1-bit SGD (Seide et al., Interspeech 2014, section 3.2): a rank sends of every element whether it is negative, and the mean of those that
// are and of those that are not, which is what an element is decoded as. There a pair of means is of a column of a weight matrix, here of
// a block of elements.

#include <array>
#include <cstring>

#include "exec/host/compressors/bits.hpp"
#include "exec/host/compressors/blocks.hpp"
#include "exec/host/compressors/compressor.hpp"

namespace rehearsal::exec {
namespace {

template <class T>
using Means = std::array<T, 2>;  ///< of what is not negative, and of what is

template <class T>
constexpr std::int64_t bytes_of_means(std::int64_t blocks) {
  return blocks * static_cast<std::int64_t>(sizeof(Means<T>));
}

template <class T>
Means<T> means_of(const T* first, std::int64_t count) {
  std::array<double, 2> sums{}, counts{};
  for (std::int64_t e = 0; e < count; ++e) {
    const std::size_t negative = first[e] < 0 ? 1 : 0;
    sums[negative] += static_cast<double>(first[e]);
    counts[negative] += 1;
  }
  Means<T> means{};
  for (const std::size_t side : {0U, 1U}) means[side] = counts[side] > 0 ? static_cast<T>(sums[side] / counts[side]) : T(0);
  return means;
}

template <class T>
void send_sides(const CompressorTask& task, const T* gradient, std::byte* sent) {
  std::byte* codes = sent + bytes_of_means<T>(blocks_of(task.elements));
  each_block(task.elements, [&](std::int64_t b, std::int64_t first, std::int64_t end) {
    const auto means = means_of(gradient + first, end - first);
    std::memcpy(sent + bytes_of_means<T>(b), means.data(), sizeof means);
    BitWriter bits(codes + code_offset(b, 1));
    for (auto e = first; e < end; ++e) bits.put(gradient[e] < 0 ? 1U : 0U, 1);
    bits.finish();
  });
}

template <class T>
void add_sides(const CompressorTask& task, std::span<const std::byte* const> sent, T* sum) {
  const auto codes = bytes_of_means<T>(blocks_of(task.elements));
  each_block(task.elements, [&](std::int64_t b, std::int64_t first, std::int64_t end) {
    std::fill(sum + first, sum + end, T(0));
    for (const auto* from : sent) {
      Means<T> means;
      std::memcpy(means.data(), from + bytes_of_means<T>(b), sizeof means);
      BitReader bits(from + codes + code_offset(b, 1));
      for (auto e = first; e < end; ++e) sum[e] += means[bits.take(1)];
    }
  });
}

}  // namespace

CompressorCodes one_bit_code() {
  return {plan::CompressionRule::OneBit, {send_sides<float>, add_sides<float>}, {send_sides<double>, add_sides<double>}};
}

}  // namespace rehearsal::exec
