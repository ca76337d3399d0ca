#pragma once
// How long a step may be expected to take before one was measured.

#include "cli/model_options.hpp"
#include "costmodel/interval.hpp"
#include "graph/training.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::cli {

/// Seconds of a step by closed forms on cores of an ordinary server, one for each rank's threads; 0 where that cannot be said.
[[nodiscard]] double ordinary_step_seconds(const plan::Program&, const graph::TrainingGraph&, int threads);

/// Seconds of a step on the machine of a calibration, as `estimate --platform MACHINE --machine MACHINE` says.
[[nodiscard]] costmodel::Interval step_on(const ModelOptions&, const std::string& machine, const plan::Plan&);

}  // namespace rehearsal::cli
