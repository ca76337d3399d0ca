#pragma once
// Clocks of a pipeline's stages: those that wait for others can run slower, and a step takes as long (Chung et al., "Reducing Energy Bloat
// in Large Model Training", SOSP 2024, there for every pass by itself; here one clock for all of a stage's passes).

#include <memory>
#include <vector>

#include "predict/frameworks/closed_step.hpp"

namespace rehearsal::predict::frameworks {

/// By how much a step may become longer: a slower stage also takes longer to fill and drain the pipeline.
inline constexpr double kStepMayGrow = 0.01;

/// By stage, as a share of the device's own clock. Empty: all run at that.
struct StageClocks {
  std::vector<double> shares;
  std::vector<std::unique_ptr<const StepTimer>> timers;  ///< of stages at these clocks, which a step refers to
  double slower = 0;                                     ///< share by which the step takes longer
  double saved = 0;                                      ///< share of the energy at the meter
};

/// Lowers the clocks of a step's stages, each by a part of the time that it has less to do than the slowest one, so that the step takes
/// least energy and is no longer than kStepMayGrow allows; the step's timers are then those at these clocks. Nothing where no stage waits.
[[nodiscard]] StageClocks lower_clocks(StagedStep&, const costmodel::Constants&);

/// Watts of a device of every stage in a step of so long.
[[nodiscard]] std::vector<double> stage_watts(const StagedStep&, const StageClocks&, double seconds, const costmodel::Constants&);

}  // namespace rehearsal::predict::frameworks
