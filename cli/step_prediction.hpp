#pragma once
// How long a step may be expected to take before one was measured.

#include "cli/model_options.hpp"
#include "cli/platform_options.hpp"
#include "costmodel/interval.hpp"
#include "costmodel/measured_device.hpp"
#include "graph/training.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::cli {

/// Seconds of a step by closed forms on cores of an ordinary server, one for each rank's threads; 0 where that cannot be said.
[[nodiscard]] double ordinary_step_seconds(const plan::Program&, const graph::TrainingGraph&, int threads);

/// As `--platform MACHINE --machine MACHINE --framework rehearse`, where a rank has so many threads. Without a machine: cores of
/// an ordinary server.
[[nodiscard]] PlatformOptions place_of_ranks(const std::string& machine, int ranks, int threads);
/// Seconds of a step on the machine of a calibration, as `estimate --platform MACHINE --machine MACHINE` says, with so many threads a rank.
[[nodiscard]] costmodel::Interval step_on(const ModelOptions&, const std::string& machine, const plan::Plan&, int threads);
/// What measurements are for the device that computes here.
struct OriginOfMeasurements {
  costmodel::Likeness likeness;
  std::string sentence;  ///< "was measured on A, and this is B"
};
/// `gpu`: what computes here, empty where that is the processor.
[[nodiscard]] OriginOfMeasurements origin_of(const costmodel::MachineContext&, const std::string& gpu);
/// A warning where the calibration is of another processor than this machine's; empty: it is not, or does not say. `gpu`: what the training
/// runs on, empty where that is the processor. Throws Refusal where the calibration is of another kind of device, or another GPU.
[[nodiscard]] std::string of_another_machine(const std::string& machine, const std::string& gpu);

}  // namespace rehearsal::cli
