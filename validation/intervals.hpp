#pragma once
#include <vector>

#include "validation/constants_fit.hpp"

namespace rehearsal::validation {

/// Sets the half-widths of all groups to the 90 % quantile of |left-out residual| / widening, sources weighted by 1/sqrt(quantities).
/// Returns the share of quantities inside the interval that is made without their own source.
[[nodiscard]] double set_intervals(costmodel::FittedEvidence&, const std::vector<FittedQuantity>&);

}  // namespace rehearsal::validation
