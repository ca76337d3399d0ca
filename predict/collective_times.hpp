#pragma once
// How long one collective takes by itself on a platform, by every algorithm: what `rehearse collective` compares.

#include <string>
#include <vector>

#include "predict/step_cost.hpp"

namespace rehearsal::predict {

struct CollectiveQuestion {
  const platforms::Platform& platform;
  const costmodel::CostModel& model;
  plan::CollectiveKind kind = plan::CollectiveKind::AllReduce;
  int ranks = 1;  ///< the first so many devices of the platform
  Bytes size;     ///< of the full vector
};

struct CollectiveTime {
  std::string algorithm;
  Seconds seconds;
  BytesPerSecond bus;    ///< nccl-tests' bus bandwidth: what each rank's link carries
  bool chosen = false;   ///< by `allreduce=auto`: of least closed form
  bool library = false;  ///< not one of our algorithms, but the collective library of the device's vendor as frameworks use it
};

/// Every algorithm of the kind, the library's time (for devices that have one) last. `evaluator` plays the steps.
/// Throws Refusal when the platform has fewer devices than `ranks`, or there is nobody to send to.
[[nodiscard]] std::vector<CollectiveTime> collective_times(const CollectiveQuestion&, StepEvaluator&);

/// Bytes that the busiest link of a rank carries for a byte of the vector (nccl-tests, PERFORMANCE.md): 2(P-1)/P for an all-reduce.
[[nodiscard]] double bus_factor(plan::CollectiveKind, int ranks);

}  // namespace rehearsal::predict
