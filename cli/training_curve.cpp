#include "cli/training_curve.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "base/short_number.hpp"
#include "base/statistics.hpp"

namespace rehearsal::cli {
namespace {

using traces::MetricsEntry;

std::string text_of_number(double value) { return short_number(value, 4); }

/// Best value of a curve, for those that do not come to the target.
struct Furthest {
  double value = std::numeric_limits<double>::infinity();
  std::int64_t step = 0;
};

[[noreturn]] void refuse_short_curve(const TrainingCurve& curve, const std::string& what, double best, std::int64_t step, double target) {
  throw Refusal(curve.metrics.name + ": the " + what + " came to " + text_of_number(best) + " at best, in step " + std::to_string(step) +
                ", not to " + text_of_number(target) + "; train longer, or ask for what it came to");
}

}  // namespace

TrainingCurve curve_of(const std::string& file) {
  TrainingCurve curve{traces::read_metrics(file), 0};
  std::vector<double> batches;
  for (const auto& entry : curve.metrics.entries)
    if (entry.samples_per_second && entry.seconds) batches.push_back(*entry.samples_per_second * *entry.seconds);
  if (batches.empty())
    throw BadInput(file,
                   "has no line with seconds and samples_per_second, from which the batch follows; give a file that run --metrics wrote");
  curve.batch = std::round(median_of(batches));
  if (!(curve.batch >= 1)) throw BadInput(file, "its seconds times samples_per_second are less than one sample a step");
  return curve;
}

double steps_to_loss(const TrainingCurve& curve, double loss) {
  const auto& entries = curve.metrics.entries;
  const bool evaluated = std::ranges::any_of(entries, [](const MetricsEntry& e) { return e.eval_loss.has_value(); });
  Furthest best;
  std::vector<double> last;
  for (const auto& entry : entries) {
    const auto& value = evaluated ? entry.eval_loss : entry.loss;
    if (!value) continue;
    last.push_back(*value);
    const std::size_t window = evaluated ? 1 : kSmoothedSteps;
    if (last.size() < window) continue;
    double mean = 0;
    for (std::size_t n = last.size() - window; n < last.size(); ++n) mean += last[n] / static_cast<double>(window);
    if (mean <= loss) return static_cast<double>(entry.step);
    if (mean < best.value) best = {mean, entry.step};
  }
  if (last.size() < kSmoothedSteps && !evaluated)
    throw BadInput(curve.metrics.name,
                   "has fewer losses than the " + std::to_string(kSmoothedSteps) + " whose mean counts; train longer, or with --eval DATA");
  refuse_short_curve(curve, evaluated ? "loss on held-out data" : "mean loss of " + std::to_string(kSmoothedSteps) + " steps", best.value,
                     best.step, loss);
}

double steps_to_accuracy(const TrainingCurve& curve, double accuracy) {
  Furthest best{-1, 0};
  for (const auto& entry : curve.metrics.entries) {
    if (!entry.eval_accuracy) continue;
    if (*entry.eval_accuracy >= accuracy) return static_cast<double>(entry.step);
    if (*entry.eval_accuracy > best.value) best = {*entry.eval_accuracy, entry.step};
  }
  if (best.value < 0) throw BadInput(curve.metrics.name, "has no accuracy on held-out data; train with --eval DATA");
  refuse_short_curve(curve, "accuracy on held-out data", best.value, best.step, accuracy);
}

std::optional<double> critical_batch(const TrainingCurve& curve, double steps) {
  double square = 0, variance = 0;
  for (const auto& entry : curve.metrics.entries) {
    if (static_cast<double>(entry.step) > steps || !entry.gradient_square || !entry.gradient_variance) continue;
    square += *entry.gradient_square;
    variance += *entry.gradient_variance;
  }
  if (!(square > 0) || !(variance > 0)) return std::nullopt;
  return variance / square;
}

}  // namespace rehearsal::cli
