#pragma once
// Measurements of training back into the calibration: exact samples of the kernels that ran, corrections of families and operators
// (so that other shapes benefit), of communication, and of what the sum of the parts leaves out of a step. Nothing is stored per
// model or plan.

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/calibration.hpp"
#include "platforms/platform.hpp"
#include "traces/trace.hpp"

namespace rehearsal::traces {

/// How well a trace's step was predicted before and after learning.
struct Learned {
  double measured = 0, before = 0, after = 0;  ///< seconds of a step: median of those that are no warm-up
  bool known = false;                          ///< learned earlier already: nothing was taken from it again
  double waiting = 0;                          ///< share of its kernels' time in which something else had their core
  [[nodiscard]] double error_before() const { return measured > 0 ? before / measured - 1 : 0; }
  [[nodiscard]] double error_after() const { return measured > 0 ? after / measured - 1 : 0; }
};

struct CorrectionChange {
  costmodel::Correction before, after;  ///< factor 1 and no observations where there was none
};

struct LearnOutcome {
  std::vector<Learned> traces;                ///< in the order given
  std::vector<CorrectionChange> corrections;  ///< that changed by more than 0.1 %, largest change first
  std::int64_t samples_added = 0, samples_merged = 0;
};

/// Changes the calibration. `platform`: the machine on which the traces were measured.
/// Throws BadInput when a trace was simulated or holds no step, or needs more ranks than the platform has; nothing is changed then.
LearnOutcome learn(costmodel::Calibration&, const platforms::Platform& platform, std::span<const Trace> traces);

/// Takes back what was learned from all traces, of how many it says; what `rehearse calibrate` measured stays.
std::int64_t forget(costmodel::Calibration&);

}  // namespace rehearsal::traces
