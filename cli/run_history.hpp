#pragma once
// What runs were predicted to take on a machine, and what they took: lines beside its calibration.

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/interval.hpp"

namespace rehearsal::cli {

/// One training that ended.
struct RunRecord {
  std::string time;  ///< when it ended, UTC: "2026-11-23T04:05:06Z"
  std::string model, plan, dtype;
  std::int64_t batch = 1, ranks = 1, steps = 0;
  costmodel::Interval predicted;  ///< seconds of a step
  double measured = 0;            ///< seconds of a step: the median of those after the warm-up
  double loss = 0;                ///< of the last step
  /// As `compare` and `validate` have it: above 0 where the run was quicker than predicted.
  [[nodiscard]] double error() const { return predicted.value / measured - 1; }
};

/// "site/machine.json" -> "site/machine.history.jsonl".
[[nodiscard]] std::string history_of(const std::string& machine);
/// Seconds since 1970 as records have them.
[[nodiscard]] std::string time_text(std::int64_t seconds);
/// Adds one line, whole. Throws EnvironmentFailure when the file cannot be written.
void add_to_history(const std::string& path, const RunRecord&);
/// In the order of the file; a last line that was not finished is left out. Throws BadInput naming file and line; `broken`, where it is
/// wanted, gets the numbers of lines that are no record instead.
[[nodiscard]] std::vector<RunRecord> read_history(const std::string& path, std::vector<std::int64_t>* broken = nullptr);

/// Runs of one week (ISO 8601: "2026-W48").
struct WeekOfRuns {
  std::string week;
  std::int64_t runs = 0;
  double error = 0;  ///< median of theirs
};
/// Runs that ended in their warm-up, as earlier versions kept them, do not count.
[[nodiscard]] std::vector<WeekOfRuns> by_week(const std::vector<RunRecord>&);

}  // namespace rehearsal::cli
