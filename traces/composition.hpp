#pragma once
// The step of a traced program put together again from what a cost model says about its parts.

#include "costmodel/cost_model.hpp"
#include "platforms/platform.hpp"
#include "traces/trace.hpp"

namespace rehearsal::traces {

/// Predicted parts of a step on the rank that needs longest. As the closed form composes steps of replicas whose messages are moved by
/// the computing cores: step = (kernels + communication · its correction + bubble) · correction of the composition.
struct Composition {
  double kernels = 0;        ///< seconds: every computing event of one step at what the model says about its kernel
  double communication = 0;  ///< seconds: closed forms of collectives and messages, uncorrected
  double bubble = 0;         ///< seconds: one micro-batch on every other stage of the pipeline, which fills and drains while this waits
  [[nodiscard]] double uncomposed(const costmodel::CostModel& model) const {
    return kernels + communication * model.communication_factor() + bubble;
  }
  [[nodiscard]] double step(const costmodel::CostModel& model) const { return uncomposed(model) * model.composition_factor(); }
};

/// Throws BadInput when the trace's plan needs more ranks than the platform has.
[[nodiscard]] Composition compose(const Trace&, const platforms::Platform&, const costmodel::CostModel&);

}  // namespace rehearsal::traces
