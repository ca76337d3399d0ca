#pragma once
// What stands in the way of replicas that train by themselves, and what is said of them.

#include <vector>

#include "graph/training.hpp"
#include "plan/plan.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// Replicas that train by themselves have whole copies of what they train, and meet in whole steps; those that meet one by one wait for
/// nobody in between.
void check_meetings(const graph::TrainingGraph&, const Plan&, std::vector<Violation>&);
/// The paper, where the mathematics is not that of summed gradients.
void warn_about_meetings(Program&);

}  // namespace rehearsal::plan
