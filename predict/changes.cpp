#include "predict/changes.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "plan/recompute/recompute.hpp"
#include "predict/free_keys.hpp"

namespace rehearsal::predict {
namespace {

/// Of the many sizes that a micro-batch can have only 1 is tried, and those that are near, by halves and doubles; no budgets of memory for
/// recomputation, which take many times as long to plan as everything else.
bool is_left_out(const ChangedPlan& changed, const plan::Plan& plan, std::int64_t batch) {
  if (changed.key == "recompute") return plan::recompute_budget(changed.plan.recompute).has_value();
  if (changed.key != "micro_batch") return false;
  const auto whole = std::max<std::int64_t>(1, batch / plan.dp);
  const auto now = plan.micro_batch.value_or(whole), then = changed.plan.micro_batch.value_or(whole);
  if (then == 1) return false;
  constexpr std::int64_t kSteps[] = {2, 4, 16};
  return std::ranges::none_of(kSteps, [&](std::int64_t n) { return then == n * now || n * then == now; });
}

/// A change, and the plan with it.
struct Tried {
  ChangedPlan change;
  Assessment assessment;
};

/// Nothing where the plan cannot be used.
std::optional<Assessment> assessed(Predictor& predictor, const plan::Plan& plan) {
  try {
    return predictor.closed(plan);
  } catch (const Refusal&) {
    return std::nullopt;
  }
}

std::vector<Tried> tried(Predictor& predictor, const plan::Plan& plan) {
  std::vector<Tried> all;
  for (auto& change : changed_plans(predictor, plan)) {
    if (is_left_out(change, plan, predictor.batch())) continue;
    if (auto assessment = assessed(predictor, change.plan)) all.push_back({std::move(change), std::move(*assessment)});
  }
  return all;
}

class Remedy {
 public:
  Remedy(Predictor& predictor, const plan::Plan& plan) : predictor_(predictor), plan_(plan), singles_(tried(predictor, plan)) {}

  std::optional<FittingPlan> find() && {
    const Tried* quickest = nullptr;
    for (const auto& one : singles_)
      if (one.assessment.fits() && (quickest == nullptr || one.assessment.step < quickest->assessment.step)) quickest = &one;
    if (quickest != nullptr) return FittingPlan{quickest->assessment, {quickest->change.text()}};
    if (!add_changes()) return std::nullopt;
    take_back();
    FittingPlan fitting{*now_, {}};
    for (const auto& [key, change] : chosen_)
      if (change != nullptr) fitting.changes.push_back(change->text());
    return fitting;
  }

 private:
  /// Of every key the change that saves most memory, the greatest saving first, until the plan fits.
  bool add_changes() {
    std::map<std::string_view, const Tried*> savers;
    const auto before = assessed(predictor_, plan_);
    for (const auto& one : singles_) {
      if (before && one.assessment.memory_bytes >= before->memory_bytes) continue;
      auto& most = savers[one.change.key];
      if (most == nullptr || one.assessment.memory_bytes < most->assessment.memory_bytes) most = &one;
    }
    std::vector<const Tried*> order;
    for (const auto& [key, one] : savers) order.push_back(one);
    std::ranges::stable_sort(order, {}, [](const Tried* t) { return t->assessment.memory_bytes; });
    for (const auto* one : order) {
      chosen_.emplace_back(one->change.key, &one->change);
      auto next = assessed(predictor_, with_chosen());
      if (!next || (now_ && next->memory_bytes >= now_->memory_bytes)) {  // not together with the others
        chosen_.pop_back();
        continue;
      }
      now_ = std::move(next);
      if (now_->fits()) return true;
    }
    return false;
  }

  /// For every key the value with which the plan fits and is quickest, the old one among them.
  void take_back() {
    for (auto& [key, change] : chosen_) {
      std::vector<const ChangedPlan*> others{nullptr};
      for (const auto& one : singles_)
        if (one.change.key == key) others.push_back(&one.change);
      auto best = change;
      for (const auto* other : others) {
        change = other;
        auto next = assessed(predictor_, with_chosen());
        if (next && next->fits() && next->step < now_->step) now_ = std::move(next), best = other;
      }
      change = best;
    }
  }

  [[nodiscard]] plan::Plan with_chosen() const {
    auto plan = plan_;
    for (const auto& [key, change] : chosen_)
      if (change != nullptr) plan = with_changes(std::move(plan), *change);
    return plan;
  }

  Predictor& predictor_;
  const plan::Plan& plan_;
  std::vector<Tried> singles_;
  std::vector<std::pair<std::string_view, const ChangedPlan*>> chosen_;  ///< by key; nullptr: as it was
  std::optional<Assessment> now_;
};

}  // namespace

std::vector<Change> helpful_changes(Predictor& predictor, const Assessment& now) {
  const auto closed = predictor.closed(now.plan).step;  // both sides by one evaluator
  std::vector<Change> changes;
  for (const auto& [change, assessment] : tried(predictor, now.plan)) {
    const double quicker = 1 - assessment.step / closed;
    if (assessment.fits() && quicker >= kWorthSaying) changes.push_back({change.text(), quicker, assessment.memory_bytes});
  }
  std::ranges::stable_sort(changes, std::greater(), &Change::quicker);
  return changes;
}

std::optional<FittingPlan> cheapest_remedy(Predictor& predictor, const plan::Plan& plan) { return Remedy(predictor, plan).find(); }

}  // namespace rehearsal::predict
