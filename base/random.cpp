#include "base/random.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace rehearsal {
namespace {

// The same operations in the same order for every instruction set and for one number alone, never a fused multiplication and addition
// (compiled with -ffp-contract=off): every machine draws the same numbers. Loops have no branches, so that they become vector
// instructions.

/// By Horner's rule, written out: the term of the highest power stands first.
template <std::size_t kTerms>
[[gnu::always_inline]] constexpr double polynomial(const std::array<double, kTerms>& terms, double s) {
  return [&]<std::size_t... kTerm>(std::index_sequence<kTerm...>) {
    double sum = 0;
    ((sum = sum * s + terms[kTerm]), ...);
    return sum;
  }
  (std::make_index_sequence<kTerms>());
}

constexpr std::array kInverseTangent{1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                                     1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
/// (-1)^n / (2n + shift)!
template <std::size_t kTerms>
constexpr std::array<double, kTerms> inverse_factorials(int shift) {
  std::array<double, kTerms> terms{};
  double term = 1;
  for (std::size_t n = 0; n < kTerms; ++n) {
    terms[kTerms - 1 - n] = term;
    const double next = 2.0 * static_cast<double>(n) + shift;
    term /= -(next + 1) * (next + 2);
  }
  return terms;
}
constexpr auto kCosine = inverse_factorials<9>(0), kSine = inverse_factorials<9>(1);

/// ln(u), 0 < u <= 1: u = 2^e m with m between the roots of 1/2 and 2, and ln(m) = 2 atanh((m - 1) / (m + 1)), of whose series
/// 12 terms leave less than 2^-65 of it (the quotient is at most 0.172).
[[gnu::always_inline]] inline double logarithm(double u) {
  constexpr std::uint64_t kRoot = std::bit_cast<std::uint64_t>(0.70710678118654752440), kBias = 1024;
  constexpr double kLn2 = 0.69314718055994530942;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(u);
  const std::uint64_t biased = (bits - kRoot + (kBias << 52)) >> 52;
  const double m = std::bit_cast<double>(bits - ((biased - kBias) << 52));
  const double f = (m - 1) / (m + 1), s = f * f;
  return static_cast<double>(static_cast<std::int32_t>(biased) - static_cast<std::int32_t>(kBias)) * kLn2 +
         2 * f * polynomial(kInverseTangent, s);
}

/// cos(2 pi v), 0 <= v < 1: of the nearest quarter turn what is left, at most an eighth, by the series of sine or cosine.
[[gnu::always_inline]] inline double cosine_of_turns(double v) {
  constexpr double kRound = 0x1.8p52, kTwoPi = 6.28318530717958647693;
  const double shifted = 4 * v + kRound;
  const std::uint64_t quarter = std::bit_cast<std::uint64_t>(shifted);
  const double x = (v - (shifted - kRound) * 0.25) * kTwoPi, s = x * x;
  const double cosine = polynomial(kCosine, s), sine = polynomial(kSine, s) * x;
  const double value = (quarter & 1) != 0 ? sine : cosine;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) ^ (((quarter + 1) & 2) << 62));
}

/// Box and Muller 1958; one of the pair.
[[gnu::always_inline]] inline double normal_of(std::uint64_t first, std::uint64_t second) {
  return std::sqrt(-2.0 * logarithm(1.0 - uniform_of(first))) * cosine_of_turns(uniform_of(second));
}

struct NormalDraw {
  std::uint64_t seed, stream, first;
};

[[gnu::always_inline]] inline void fill(const NormalDraw& draw, std::span<double> out) {
  constexpr std::size_t kBlock = 128;
  std::array<std::uint64_t, kBlock> one, other;
  for (std::size_t begin = 0; begin < out.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, out.size() - begin);
    const std::uint64_t index = 2 * (draw.first + begin);
    for (std::size_t i = 0; i < count; ++i) {
      one[i] = random_bits(draw.seed, draw.stream, index + 2 * i);
      other[i] = random_bits(draw.seed, draw.stream, index + 2 * i + 1);
    }
    for (std::size_t i = 0; i < count; ++i) out[begin + i] = normal_of(one[i], other[i]);
  }
}

using FillNormal = void (*)(const NormalDraw&, std::span<double>);
void fill_plain(const NormalDraw& draw, std::span<double> out) { fill(draw, out); }
#if defined(__x86_64__)
[[gnu::target("avx2")]] void fill_avx2(const NormalDraw& draw, std::span<double> out) { fill(draw, out); }
[[gnu::target("avx512f,avx512dq,avx512vl")]] void fill_avx512(const NormalDraw& draw, std::span<double> out) { fill(draw, out); }

FillNormal best_here() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) return fill_avx512;
  return __builtin_cpu_supports("avx2") ? fill_avx2 : fill_plain;
}
#else
FillNormal best_here() { return fill_plain; }
#endif

}  // namespace

double random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return normal_of(random_bits(seed, stream, 2 * index), random_bits(seed, stream, 2 * index + 1));
}

void fill_random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::span<double> out) {
  static const FillNormal fill_here = best_here();
  fill_here({seed, stream, first}, out);
}

}  // namespace rehearsal
