#pragma once
// Everything that stands in a plan's way on a platform, at once, each with what would mend it.

#include <functional>
#include <memory>
#include <vector>

#include "predict/predictor.hpp"

namespace rehearsal::predict {

/// What a plan is for, without a platform.
struct PlannedModel {
  const graph::TrainingGraph& training;
  std::shared_ptr<const graph::LogicalDims> dims;
  std::shared_ptr<plan::RuleBook> rules;
};
/// all_violations(), but for what only a platform tells.
[[nodiscard]] std::vector<plan::Violation> model_violations(const PlannedModel&, const plan::Plan&);

/// validate(), every degree that no operator can use (tried one by one, so that each is named with the node in its way), more stages than
/// operators, and ranks that the platform does not have; where there is none of these, what lowering still refuses. Empty: it can be
/// lowered.
[[nodiscard]] std::vector<plan::Violation> all_violations(const Workload&, const plan::Plan&);
/// Ranks that the platform does not have.
void add_missing_devices(const platforms::Platform&, const plan::Plan&, std::vector<plan::Violation>&);
/// "key: problem (remedy); ..."
[[nodiscard]] std::string to_text(const std::vector<plan::Violation>&);
/// lower_for(), refusing with all_violations() rather than with the first of them.
[[nodiscard]] plan::Program lower_or_say_all(const Workload&, const plan::Plan&);
/// The same for any way to lower, with what finds the faults.
[[nodiscard]] plan::Program lower_or_say_all(const std::function<plan::Program()>& lower,
                                             const std::function<std::vector<plan::Violation>()>& faults, const plan::Plan&);

}  // namespace rehearsal::predict
