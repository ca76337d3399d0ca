#pragma once
// Which plans a framework can run, key by key.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "costmodel/framework.hpp"
#include "plan/plan.hpp"
#include "predict/predictor.hpp"

namespace rehearsal::predict::frameworks {

/// What a plan is asked for.
struct PlanQuestion {
  const plan::Plan& plan;
  const costmodel::FrameworkProfile& profile;
  const platforms::Platform& platform;
  const SplitLimits& limits;
  std::int64_t batch = 1;

  [[nodiscard]] std::int64_t replica_batch() const { return plan.replica_batch(batch); }
  [[nodiscard]] std::int64_t micro_batch() const { return plan.slot_batch(batch); }
  [[nodiscard]] int micro_batches() const { return static_cast<int>(std::max<std::int64_t>(1, replica_batch() / micro_batch())); }
};

/// A row for every key of a plan: what a framework refuses of it.
struct PlanKeyRule {
  std::string_view key;
  void (*check)(const PlanQuestion&, std::vector<plan::Violation>&);  ///< nullptr: `problem` says what is wrong with any value
  std::string_view problem{};  ///< of every value but the neutral one, @ being the profile's name; empty: all are honoured
  std::string_view remedy = "leave it out, or use --framework rehearse";
};
[[nodiscard]] std::span<const PlanKeyRule> plan_key_rules();

/// Everything that stands in the plan's way, but what only the model's operators know.
[[nodiscard]] std::vector<plan::Violation> plan_violations(const PlanQuestion&);

}  // namespace rehearsal::predict::frameworks
