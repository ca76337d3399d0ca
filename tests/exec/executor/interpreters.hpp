#pragma once
// One Program in several interpreters: what each does, without times, and the first thing in which two of them differ.

#include <optional>
#include <string>
#include <vector>

#include "graph/training.hpp"
#include "predict/step_cost.hpp"
#include "traces/trace.hpp"

namespace rehearsal::exec::sample {

/// An event without its times.
struct Done {
  plan::InstructionIdentity identity;
  int micro_batch = 0;
  std::string name, op, implementation;
  std::int64_t bytes = 0;
  bool operator==(const Done&) const = default;
};

/// What one stream of a rank did in a step, in the order of the beginnings.
[[nodiscard]] std::vector<Done> done_on(const traces::RankTrace&, plan::Stream, int step);
/// The first thing in which the ranks of `some`, in its first step, differ from those of `all`, in the given one; none when they did the
/// same.
[[nodiscard]] std::optional<std::string> difference(const traces::Trace& some, const traces::Trace& all, int step = 0);
/// A step like every other: the first one, but the second where the first one also fills a pipeline without a flush.
[[nodiscard]] int usual_step(const plan::Program&);
/// The trace of a Program on a modelled machine.
[[nodiscard]] traces::Trace simulated(const plan::Program&, const graph::TrainingGraph&, predict::StepEvaluator&);

}  // namespace rehearsal::exec::sample
