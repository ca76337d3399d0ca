#pragma once
// Trainings that were run, as their metrics tell them: how far they came, after how many steps.

#include <optional>
#include <string>

#include "traces/training_page.hpp"

namespace rehearsal::cli {

struct TrainingCurve {
  traces::MetricsFile metrics;
  double batch = 0;  ///< samples of a step
};

/// Throws BadInput naming the file where it does not say how many samples a step has.
[[nodiscard]] TrainingCurve curve_of(const std::string& file);

/// Steps until the loss on held-out data, or where none was measured the mean loss of the last kSmoothedSteps steps, is as low. Throws
/// Refusal saying how far the training came.
inline constexpr std::size_t kSmoothedSteps = 20;
[[nodiscard]] double steps_to_loss(const TrainingCurve&, double loss);
/// Steps until the accuracy on held-out data is as high. Throws BadInput where none was measured, Refusal saying how far it came.
[[nodiscard]] double steps_to_accuracy(const TrainingCurve&, double accuracy);

/// Samples: the variance of the gradients of single samples over the square of the gradient, in the mean of the steps until then; nothing
/// where they were not measured, or are lost in noise.
[[nodiscard]] std::optional<double> critical_batch(const TrainingCurve&, double steps);

}  // namespace rehearsal::cli
