#pragma once
// Two traces of the same program beside each other: predicted and measured, or two of one kind.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "traces/trace.hpp"

namespace rehearsal::traces {

/// Seconds of a step, mean over the central steps (see central_steps), which is steadier than one step, and over the ranks that both
/// traces hold.
struct ComparedRow {
  std::string phase;  ///< "prologue", "forward", "backward", "update"; "step" for what is no operator
  std::string op;     ///< operator kind; "exposed communication" and "idle" in phase "step"
  double predicted = 0, measured = 0;
  std::int64_t instructions = 0;  ///< of one rank's program: kinds of events of this row
  [[nodiscard]] double error() const { return predicted - measured; }
};

/// One instruction of the program, found in both traces by its identity.
struct ComparedInstruction {
  std::string phase, op, name;
  double predicted = 0, measured = 0;  ///< seconds of a step, as above
  [[nodiscard]] double error() const { return predicted - measured; }
};

struct Comparison {
  double predicted_step = 0, measured_step = 0;        ///< median_step_seconds()
  double predicted_rows = 0, measured_rows = 0;        ///< seconds that the rows sum to: the mean of the central steps
  double predicted_input = 0, measured_input = 0;      ///< of them: samples are loaded, waiting for them included
  std::vector<ComparedRow> rows;                       ///< largest absolute error first
  std::vector<ComparedInstruction> instructions;       ///< those that compute, largest absolute error first
  std::int64_t only_predicted = 0, only_measured = 0;  ///< instructions of one rank without a counterpart
  /// predicted / measured - 1
  [[nodiscard]] double step_error() const { return measured_step > 0 ? predicted_step / measured_step - 1 : 0; }
};

/// Throws BadInput when there is none.
[[nodiscard]] std::set<int> common_ranks(const Trace&, const Trace&);

/// Throws BadInput when the traces are of different models, plans, batches, element types or frameworks, or share no rank.
[[nodiscard]] Comparison compare(const Trace& predicted, const Trace& measured);

}  // namespace rehearsal::traces
