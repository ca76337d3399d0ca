#pragma once
// From what an interpreter reports to a Trace. Both interpreters use this, so that their traces differ in times only.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "plan/memory/in_use.hpp"
#include "predict/step_cost.hpp"
#include "traces/trace.hpp"

namespace rehearsal::traces {

class TraceBuilder {
 public:
  /// `kind`: "simulated" or "measured". `threads`: of one rank.
  TraceBuilder(const plan::Program& program, const graph::Graph& graph, std::string kind, int threads);

  void add_step(const StepRecord& step) { trace_.steps.push_back(step); }
  /// One rank's instructions of one step; times are shifted by `shift` seconds onto the common clock.
  void add(int rank, int step, std::span<const predict::TimedInstruction> played, double shift);
  /// What the cost model says about an event kind's kernel, embedded for comparison.
  void set_costs(const predict::ProgramCosts* costs) { costs_ = costs; }
  [[nodiscard]] Trace& trace() { return trace_; }  ///< to set model, platform, calibration, context
  [[nodiscard]] Trace finish() && { return std::move(trace_); }

 private:
  struct Kinds;
  std::uint32_t kind_of(RankTrace&, const predict::TimedInstruction&);
  [[nodiscard]] EventKind describe(int rank, const predict::TimedInstruction&) const;
  const plan::BytesInUse& in_use(int rank);

  const plan::Program& program_;
  const graph::Graph& graph_;  ///< whose nodes and tensors the program names
  const predict::ProgramCosts* costs_ = nullptr;
  int threads_;
  Trace trace_;
  std::map<std::uint32_t, plan::BytesInUse> in_use_;                         ///< by role
  std::vector<std::vector<std::pair<std::uint64_t, std::uint32_t>>> known_;  ///< by rank: (body, instruction, variant) -> kind, sorted
};

}  // namespace rehearsal::traces
