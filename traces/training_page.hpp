#pragma once
// The metrics of trainings as one self-contained HTML page: loss, rate and memory over the steps.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rehearsal::traces {

/// A line of `run --metrics`; what it does not say, or says as null, is missing.
struct MetricsEntry {
  std::int64_t step = 0;
  bool loss_not_finite =
      false;  ///< the step was done, and its loss is no number: null, or an empty cell where the step's seconds are given
  std::optional<double> loss, seconds, samples_per_second, tokens_per_second, resident_bytes, eval_loss, eval_accuracy, gradient_square,
      gradient_variance;
};

struct MetricsFile {
  std::string name;
  std::vector<MetricsEntry> entries;
};

/// JSON lines, or a table where the name ends in .csv. Throws BadInput naming file and line; a last line that is not whole, of a training
/// that still runs, is left out.
[[nodiscard]] MetricsFile read_metrics(const std::string& path);

/// A curve of each file in every chart, all over the same steps; values that no file has make no chart. Says from which step on a loss is
/// not finite. Throws BadInput when no file has a step.
[[nodiscard]] std::string to_page(std::span<const MetricsFile> trainings);

}  // namespace rehearsal::traces
