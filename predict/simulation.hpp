#pragma once
// Simulation as a StepEvaluator for programs that do not link it. Each evaluation happens in a worker process, which opens the module
// librehearsal_sim.so: SimGrid aborts on errors of its own, has a clock that never goes back, and exports symbols named like MPI's.

#include <memory>
#include <string_view>

#include "predict/step_cost.hpp"

namespace rehearsal::predict {

/// `fidelity`: "full" (every rank) or "folded" (one replica, where all are alike); throws BadInput for others.
/// The module is looked for in the file that the environment variable REHEARSAL_SIM_MODULE names, beside the program, and in the lib
/// folder beside the program's folder. evaluate() throws what the simulation throws, and EnvironmentFailure when the module cannot be
/// opened, the worker dies, or it does not answer within `limit`.
[[nodiscard]] std::unique_ptr<StepEvaluator> open_simulator(std::string_view fidelity = "full", Seconds limit = Seconds(3600));

}  // namespace rehearsal::predict
