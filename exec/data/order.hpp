#pragma once
// In which order samples come: a function of the seed and the sample's number in the training alone.

#include <cstdint>

namespace rehearsal::exec {

/// A permutation of 0 .. samples - 1 for every epoch, of which any place can be asked without making the others: a Feistel network
/// (Luby and Rackoff, "How to construct pseudorandom permutations", 1988) over the next even number of bits, walked until it falls below
/// `samples` (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
class SampleOrder {
 public:
  SampleOrder(std::int64_t samples, std::uint64_t seed, bool shuffled);
  /// The row that is the n-th sample which training sees.
  [[nodiscard]] std::int64_t row(std::int64_t n) const;

 private:
  [[nodiscard]] std::uint64_t mixed(std::uint64_t at, std::uint64_t epoch) const;

  std::int64_t samples_;
  std::uint64_t seed_;
  bool shuffled_;
  unsigned half_bits_ = 1;
};

}  // namespace rehearsal::exec
