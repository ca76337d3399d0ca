#pragma once
// Simulation as a StepEvaluator. Platform links carry max-min fair flows, so that messages disturb each other; without shared links
// the result equals the closed form.

#include <memory>

#include "predict/step_cost.hpp"
#include "sim/network.hpp"

namespace rehearsal::sim {

using NetworkOf = std::unique_ptr<FairNetwork> (*)(const Routes&);

/// Every rank is played. Timelines are kept of all of up to kRecordedRanks ranks, else of the first rank of every role (others are empty).
inline constexpr int kRecordedRanks = 16;
[[nodiscard]] std::unique_ptr<predict::StepEvaluator> full_evaluator(NetworkOf network = fluid_network);

/// One replica stands for all and collectives take the time of their formula, where all replicas have the same work; every rank is
/// played where they differ. StepCost::busy_seconds and timeline then have one entry per stage.
[[nodiscard]] std::unique_ptr<predict::StepEvaluator> folded_evaluator();

}  // namespace rehearsal::sim
