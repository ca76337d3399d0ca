#pragma once
// The constants of the accelerator model from published runs: robust, with priors, and checked on sources left out.

#include <span>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "validation/intervals.hpp"
#include "validation/site_lessons.hpp"
#include "validation/validate.hpp"

namespace rehearsal::validation {

struct FitOutcome {
  costmodel::ConstantsFile constants;  ///< with intervals from the residuals of left-out sources
  std::vector<FittedQuantity> quantities;
  std::vector<TaughtNothing> nothing;  ///< records that are refused, with the reason
  int fitted_constants = 0;
  IntervalCheck intervals;
};

/// Minimises sum of weight·|log error| + prior by iteratively reweighted Gauss-Newton steps on finite differences; then, per source, the
/// same without it on the linearised model, predicted exactly. Weights: 1/sqrt(quantities of the source), less for incomplete records.
/// With `steps` = 0 the constants stay and only the residuals and intervals are computed.
/// Throws Refusal where no record has a figure that is predicted.
[[nodiscard]] FitOutcome fit_constants(std::span<const Record>, const costmodel::ConstantsFile& start, int steps, Progress&);

/// The publication of a record: repository and document, what one team measured with one code base.
[[nodiscard]] std::string publication_of(const Record&);

}  // namespace rehearsal::validation
