#pragma once
#include "predict/frameworks/job.hpp"
#include "predict/frameworks/part.hpp"

namespace rehearsal::predict::frameworks {

/// Bytes on the fullest rank. `states`: weights, gradients, optimizer, sharded as ZeRO says (Rajbhandari et al. 2020). `activations`: what
/// the backward pass needs again, times the micro-batches in flight of 1F1B (Korthikanti et al. 2022, section 4).
struct JobMemory {
  double states = 0, activations = 0;
};
[[nodiscard]] JobMemory memory_of(const ModelRows&, const AnalyticJob&);
/// What the device reports: allocator, context, buffers of communication.
[[nodiscard]] double device_reading(const JobMemory&, const AnalyticJob&, const costmodel::Constants&);

}  // namespace rehearsal::predict::frameworks
