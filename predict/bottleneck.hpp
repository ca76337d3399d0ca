#pragma once
#include <string>

#include "predict/step_cost.hpp"

namespace rehearsal::predict {

/// What most of a step goes to: "compute", "exposed communication", "pipeline bubble", "recomputation", "optimizer" or "input".
[[nodiscard]] std::string bottleneck_of(const Breakdown&);

}  // namespace rehearsal::predict
