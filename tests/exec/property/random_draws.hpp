#pragma once
// Random choices of a property test: a seed gives the same ones everywhere.

#include <cstdint>
#include <vector>

#include "base/random.hpp"

namespace rehearsal::property {

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  /// Uniform in [first, last].
  std::int64_t between(std::int64_t first, std::int64_t last) {
    return first + static_cast<std::int64_t>(random_bits(seed_, 0, count_++) % static_cast<std::uint64_t>(last - first + 1));
  }
  bool chance(double probability) { return random_uniform(seed_, 0, count_++) < probability; }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(all.size()) - 1))];
  }

 private:
  std::uint64_t seed_, count_ = 0;
};

}  // namespace rehearsal::property
