// QSGD (Alistarh et al., NeurIPS 2017, section 3.1) on blocks of elements (section 5): of a block v a rank sends |v| and, for every
// element, its sign and a level l of 0 .. s, l being s |v_i| / |v| rounded up with the probability of its fraction, else down. An element
// is decoded as |v| sign l / s, which is v_i on average. Levels have a fixed number of bits in place of Elias' code.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/random.hpp"
#include "exec/host/compressors/bits.hpp"
#include "exec/host/compressors/blocks.hpp"
#include "exec/host/compressors/compressor.hpp"
#include "plan/compressors.hpp"

namespace rehearsal::exec {
namespace {

template <class T>
T norm_of_block(const T* first, std::int64_t count) {
  double squares = 0;
  for (std::int64_t e = 0; e < count; ++e) squares += static_cast<double>(first[e]) * static_cast<double>(first[e]);
  return static_cast<T>(std::sqrt(squares));
}

template <class T>
constexpr std::int64_t bytes_of_norms(std::int64_t blocks) {
  return blocks * static_cast<std::int64_t>(sizeof(T));
}

template <class T>
void send_levels(const CompressorTask& task, const T* gradient, std::byte* sent) {
  const int bits = plan::qsgd_bits(task.setting);
  std::byte* codes = sent + bytes_of_norms<T>(blocks_of(task.elements));
  each_block(task.elements, [&](std::int64_t b, std::int64_t first, std::int64_t end) {
    const T norm = norm_of_block(gradient + first, end - first);
    std::memcpy(sent + bytes_of_norms<T>(b), &norm, sizeof norm);
    const double to_levels = norm > 0 && std::isfinite(norm) ? task.setting / static_cast<double>(norm) : 0;
    BitWriter writer(codes + code_offset(b, bits));
    for (auto e = first; e < end; ++e) {
      const double scaled = to_levels * std::abs(static_cast<double>(gradient[e])), down = std::floor(scaled);
      const double drawn = random_uniform(task.step_seed, task.own_stream, static_cast<std::uint64_t>(e));
      const auto level = static_cast<unsigned>(std::min(task.setting, drawn < scaled - down ? down + 1 : down));
      writer.put(level << 1U | (gradient[e] < 0 ? 1U : 0U), bits);
    }
    writer.finish();
  });
}

template <class T>
void add_levels(const CompressorTask& task, std::span<const std::byte* const> sent, T* sum) {
  const int bits = plan::qsgd_bits(task.setting);
  const auto codes = bytes_of_norms<T>(blocks_of(task.elements));
  each_block(task.elements, [&](std::int64_t b, std::int64_t first, std::int64_t end) {
    std::fill(sum + first, sum + end, T(0));
    for (const auto* from : sent) {
      T unit;
      std::memcpy(&unit, from + bytes_of_norms<T>(b), sizeof unit);
      unit /= static_cast<T>(task.setting);
      BitReader reader(from + codes + code_offset(b, bits));
      for (auto e = first; e < end; ++e) {
        const auto code = reader.take(bits);
        const T value = unit * static_cast<T>(code >> 1U);
        sum[e] += (code & 1U) != 0 ? -value : value;
      }
    }
  });
}

}  // namespace

CompressorCodes qsgd_code() {
  return {plan::CompressionRule::Qsgd, {send_levels<float>, add_levels<float>}, {send_levels<double>, add_levels<double>}};
}

}  // namespace rehearsal::exec
