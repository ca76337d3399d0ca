#pragma once
// How Adam's moments come to be in a step, for the kernels of all backends.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "exec/kernels/reference/reference.hpp"

namespace rehearsal::exec::reference {

/// New moments: keep1 m + take1 g, and keep2 v + take2 g^2. From the step on that the attribute "moments_from" names, counted from 0, the
/// operand is no gradient but the first moment itself, and the second stays as it is (1-bit Adam, plan/lowering/compressed_moments.cpp).
/// One bit gives elements of small gradients the moments of large ones, and one whose gradients are but rounding (biases of keys) would
/// leave for good: the first moment is then held to what moves an element ten times as far as Adam could, which is the rate times (1 -
/// beta1) / sqrt(1 - beta2) (Kingma, Ba 2015, section 2.1). What never had a gradient stays where it is.
struct MomentWeights {
  explicit MomentWeights(const Call& call)
      : beta1(call.attributes().number("beta1", 0.9)),
        beta2(call.attributes().number("beta2", 0.999)),
        from(static_cast<std::int64_t>(call.attributes().number("moments_from", -1))) {
    if (from < 0 || call.context.step < from) {
      keep1 = beta1, take1 = 1 - beta1, keep2 = beta2, take2 = 1 - beta2;
      from = -1;
    }
  }
  [[nodiscard]] bool holds() const { return from >= 0; }
  /// Of the corrected first moment, over the root of the corrected second one.
  [[nodiscard]] double most() const { return kFurtherThanAdam * (1 - beta1) / std::sqrt(1 - beta2); }
  /// Updates that the second moment has seen, of so many.
  [[nodiscard]] std::int64_t seen_by_second(std::int64_t updates) const { return from < 0 ? updates : std::min(updates, from); }

  static constexpr double kFurtherThanAdam = 10;
  double beta1, beta2, keep1 = 0, take1 = 1, keep2 = 1, take2 = 0;
  std::int64_t from;  ///< -1: gradients come as they are
};

}  // namespace rehearsal::exec::reference
