#pragma once
// Arithmetics of a training, as --dtype and plan files name them: what products are computed in, and what tensors are stored in.

#include <span>
#include <string_view>

#include "base/dtype.hpp"

namespace rehearsal {

struct ArithmeticRow {
  std::string_view name;  ///< "fp8-block"
  std::string_view peak;  ///< the peak of a platform's device that it has
  DType stored;           ///< activations, gradients and weights
  bool predicted_alone;   ///< products in 8 or 4 bits, which no kernel here computes
};

[[nodiscard]] std::span<const ArithmeticRow> arithmetic_rows();
/// nullptr where there is none of this name.
[[nodiscard]] const ArithmeticRow* find_arithmetic(std::string_view name);

}  // namespace rehearsal
