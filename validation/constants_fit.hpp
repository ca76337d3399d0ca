#pragma once
// The constants of the accelerator model from published runs: robust, with priors, and checked on sources left out.

#include <span>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "validation/site_lessons.hpp"
#include "validation/validate.hpp"

namespace rehearsal::validation {

/// One measured quantity and how far off it is, in the log, under fitted constants and under those fitted without its source.
struct FittedQuantity {
  std::size_t record = 0;  ///< of the span that was given
  std::string key, group, source;
  double weight = 1, widening = 1;
  double residual = 0, left_out = 0;  ///< log(predicted / measured), rates turned round so that above 0 is too slow
};

struct FitOutcome {
  costmodel::ConstantsFile constants;  ///< with intervals from the residuals of left-out sources
  std::vector<FittedQuantity> quantities;
  std::vector<TaughtNothing> nothing;  ///< records that are refused, with the reason
  int fitted_constants = 0;
  double coverage = 0;  ///< of intervals that were made without the quantity's source
};

/// Minimises sum of weight·|log error| + prior by iteratively reweighted Gauss-Newton steps on finite differences; then, per source, the
/// same without it on the linearised model, predicted exactly. Weights: 1/sqrt(quantities of the source), less for incomplete records.
/// With `steps` = 0 the constants stay and only the residuals and intervals are computed.
/// Throws Refusal where no record has a figure that is predicted.
[[nodiscard]] FitOutcome fit_constants(std::span<const Record>, const costmodel::ConstantsFile& start, int steps, Progress&);

/// The publication of a record: repository and document, what one team measured with one code base.
[[nodiscard]] std::string publication_of(const Record&);

}  // namespace rehearsal::validation
