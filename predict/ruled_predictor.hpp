#pragma once
// A predictor for those who choose plans: it refuses what rules beside the model say, such as those of a framework's configuration.

#include <functional>
#include <memory>
#include <vector>

#include "predict/predictor.hpp"

namespace rehearsal::predict {

/// What stands in a plan's way; empty: nothing does.
using PlanRule = std::function<std::vector<plan::Violation>(const plan::Plan&)>;

/// Answers as the other one, which must outlive it, does, and refuses plans that the rule refuses.
[[nodiscard]] std::unique_ptr<Predictor> with_rule(Predictor&, PlanRule);

}  // namespace rehearsal::predict
