#include "cli/extent.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "cli/counts.hpp"
#include "cli/help/help_page.hpp"
#include "predict/assessment.hpp"

namespace rehearsal::cli {

void Extent::add_to(CLI::App& app) {
  const OptionGroup group(app, "How long it is trained");
  as_count(app.add_option("--steps", steps, "optimizer steps of the whole training"));
  app.add_option("--epochs", epochs, "passes over the data of the whole training");
  as_count(app.add_option("--tokens", tokens, "tokens of the whole training, such as 15T"));
}

namespace {

void require_positive(const char* flag, const std::optional<double>& value) {
  if (value && !(*value > 0 && std::isfinite(*value))) throw BadInput(flag, "must be a finite number above 0");
}

/// At least one.
double steps_of_epochs(double epochs, std::optional<double> samples, std::int64_t batch) {
  if (!samples) throw BadInput("--epochs", "needs --dataset N, the samples of an epoch");
  if (*samples < static_cast<double>(batch)) {
    const auto all = std::to_string(std::llround(*samples));
    throw BadInput("--epochs", "are of " + all + " samples, fewer than the batch of " + std::to_string(batch) + "; use --batch " + all +
                                   " or less, or give the length with --steps");
  }
  return std::max(1.0, steps_of_passes(epochs, *samples, batch));
}

}  // namespace

double steps_of_passes(double passes, double samples, std::int64_t batch, double seen) {
  constexpr double kMost = 9e15, kRounding = 1e-12;  // 0.29 passes over 100 samples are 29, not 28.999999999999996
  const double steps = std::floor((passes * samples * (1 + kRounding) - seen) / static_cast<double>(batch));
  if (!(steps < kMost)) throw BadInput("--epochs", "are more than 9e15 steps");
  return steps;
}

double steps_of(const Extent& extent, std::optional<double> samples, std::int64_t batch, const graph::Graph& model) {
  require_positive("--epochs", extent.epochs);
  require_positive("--tokens", extent.tokens);
  const int given = (extent.steps ? 1 : 0) + (extent.epochs ? 1 : 0) + (extent.tokens ? 1 : 0);
  if (given > 1) throw BadInput("--steps, --epochs and --tokens", "give one of them");
  if (extent.steps) {
    if (*extent.steps < 1) throw BadInput("--steps " + std::to_string(*extent.steps), "must be at least 1");
    return static_cast<double>(*extent.steps);
  }
  if (extent.epochs) return steps_of_epochs(*extent.epochs, samples, batch);
  if (!extent.tokens) return 1;
  const auto tokens = predict::tokens_per_sample(model);
  if (tokens == 0) throw BadInput("--tokens", "the model reads no sequence of tokens; give --steps, or --epochs and --dataset");
  return std::ceil(*extent.tokens / static_cast<double>(batch * tokens));
}

}  // namespace rehearsal::cli
