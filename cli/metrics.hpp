#pragma once
// What `run --metrics` writes.

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "exec/trainer.hpp"

namespace rehearsal::cli {

struct MetricsOptions {
  std::string path;  ///< empty: nothing is written; .csv: a table; with "tfevents" in its name: TensorBoard's events; otherwise JSON lines
  bool f64 = false;  ///< losses in 17 digits instead of 9
  std::int64_t batch = 1;
  std::int64_t tokens = 0;  ///< of a sample; 0: it is no sequence of them
  bool reads_data = false;  ///< from files: every step says what it read, 0 when its samples had been read ahead
  /// A training that goes on behind this step adds to what the file says of the steps up to there; another one begins it again.
  std::optional<std::int64_t> after;
};

struct MetricsForm;

/// One record a step, and one an evaluation; it is written whole, so that an interrupted run leaves what was finished.
class Metrics {
 public:
  /// Throws BadInput when it cannot be written.
  explicit Metrics(const MetricsOptions&);
  void add(const exec::StepReport&);
  void add(const exec::EvaluationReport&);

 private:
  void write(const std::string& record);

  MetricsOptions options_;
  const MetricsForm& form_;
  std::ofstream file_;
};

}  // namespace rehearsal::cli
