#pragma once
// Counter-based random numbers: a value depends on (seed, stream, index) alone, never on how many
// were drawn before. Every plan, rank and interpreter therefore draws the same numbers.

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace rehearsal {

/// 64 well-mixed bits of (seed, stream, index).
/// Reference: the SplitMix64 finalizer (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), applied twice.
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  constexpr auto mix = [](std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  };
  return mix(mix(seed + 0x9E3779B97F4A7C15ULL * (stream + 1)) + 0x9E3779B97F4A7C15ULL * (index + 1));
}

/// In [0, 1): the upper 53 bits over 2^53, exactly. They are converted in two parts of at most 52 bits, which every processor's vectors
/// can: 2^52 plus an integer has it in its lowest bits.
[[nodiscard]] constexpr double uniform_of(std::uint64_t bits) {
  constexpr int kLow = 27;
  constexpr auto convert = [](std::uint64_t part) {
    constexpr double kShift = 0x1.0p52;
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(kShift) | part) - kShift;
  };
  const std::uint64_t upper = bits >> 11;
  return (convert(upper >> kLow) * 0x1.0p27 + convert(upper & ((1ULL << kLow) - 1))) * 0x1.0p-53;
}

/// Uniform in [0, 1).
[[nodiscard]] constexpr double random_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return uniform_of(random_bits(seed, stream, index));
}

/// Standard normal (Box and Muller 1958; one of the pair): the same bits on every machine.
[[nodiscard]] double random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);
/// Those of index `first` and the following ones, several at a time by vector instructions.
void fill_random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::span<double> out);

}  // namespace rehearsal
