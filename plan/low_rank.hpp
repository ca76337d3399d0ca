#pragma once
// How PowerSGD sees a gradient (Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for distributed
// optimization", NeurIPS 2019): as a matrix with a row for each index of its first dimension, of which ranks sum two factors of few
// columns, P = M Q and then Q = Mᵀ P.

#include <cstdint>

#include "graph/shape.hpp"

namespace rehearsal::plan {

struct LowRankFactors {
  std::int64_t rows = 0, columns = 0;
  std::int64_t rank = 0;  ///< columns of both factors; 0: the gradient travels as it is, since factors are no smaller
  [[nodiscard]] bool any() const { return rank > 0; }
  /// That travel in the first sum, and in the second.
  [[nodiscard]] std::int64_t first() const { return any() ? rows * rank : rows * columns; }
  [[nodiscard]] std::int64_t second() const { return columns * rank; }
  /// That a rank keeps until its next gradient: what the sum lacks of its own, and Q.
  [[nodiscard]] std::int64_t kept() const { return any() ? rows * columns + second() : 0; }
};
[[nodiscard]] LowRankFactors factors_of(const graph::Shape&, double rank);

}  // namespace rehearsal::plan
