#include "predict/changes.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "plan/plan_keys.hpp"
#include "plan/recompute/recompute.hpp"
#include "predict/free_keys.hpp"

namespace rehearsal::predict {
namespace {

/// Of the many sizes that a micro-batch can have only 1 is tried, and those that are near, by halves and doubles; no budgets of memory for
/// recomputation, which take many times as long to plan as everything else.
bool is_left_out(const ChangedPlan& changed, const plan::Plan& plan, std::int64_t batch) {
  if (changed.key == "recompute") return changed.plan.recompute.rule == plan::RecomputeRule::Budget;
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
    find_savers();
    if (auto two = best_of_two()) return two;
    if (!add_changes()) return std::nullopt;
    take_back();
    FittingPlan fitting{*now_, {}};
    for (const auto& [key, change] : chosen_)
      if (change != nullptr) fitting.changes.push_back(change->text());
    return fitting;
  }

 private:
  /// Of every key the change that saves most memory, and the quickest of those that save some.
  void find_savers() {
    const auto before = assessed(predictor_, plan_);
    for (const auto& one : singles_) {
      if (before && one.assessment.memory_bytes >= before->memory_bytes) continue;
      auto& [most, quickest] = savers_[one.change.key];
      if (most == nullptr || one.assessment.memory_bytes < most->assessment.memory_bytes) most = &one;
      if (quickest == nullptr || one.assessment.step < quickest->assessment.step) quickest = &one;
    }
  }

  std::optional<FittingPlan> best_of_two() {
    std::vector<const Tried*> all;
    for (const auto& [key, savers] : savers_) {
      all.push_back(savers.first);
      if (savers.second != savers.first) all.push_back(savers.second);
    }
    std::optional<FittingPlan> best;
    for (std::size_t a = 0; a < all.size(); ++a)
      for (std::size_t b = a + 1; b < all.size(); ++b) {
        if (all[a]->change.key == all[b]->change.key) continue;
        auto both = assessed(predictor_, with_changes(all[a]->change.plan, all[b]->change));
        if (both && both->fits() && (!best || both->step < best->assessment.step))
          best = FittingPlan{std::move(*both), {all[a]->change.text(), all[b]->change.text()}};
      }
    return best;
  }

  /// Of every key the change that saves most memory, the greatest saving first, until the plan fits.
  bool add_changes() {
    std::vector<const Tried*> order;
    for (const auto& [key, savers] : savers_) order.push_back(savers.first);
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
  std::map<std::string_view, std::pair<const Tried*, const Tried*>> savers_;  ///< by key: saves most, is quickest
  std::vector<std::pair<std::string_view, const ChangedPlan*>> chosen_;       ///< by key; nullptr: as it was
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

std::optional<UsualPlan> with_usual_keys(const Predictor& predictor, const plan::Plan& plan, std::span<const std::string_view> named) {
  UsualPlan usual{plan, {}};
  const plan::Plan neutral;
  for (const auto& [key, value] : predictor.framework().usual_keys) {
    const auto* row = plan::find_plan_key(key);
    if (std::ranges::find(named, row->key) != named.end() || row->print(plan) != row->print(neutral)) continue;
    plan::set_plan_key(usual.plan, *row, value);
    const auto copies = plan.dp * plan.cp;
    if (plan::keys_without_effect(usual.plan, copies).size() > plan::keys_without_effect(plan, copies).size()) {
      plan::set_plan_key(usual.plan, *row, row->print(neutral));
      continue;
    }
    usual.changes.push_back(key + "=" + value);
  }
  return usual.changes.empty() ? std::nullopt : std::optional(std::move(usual));
}

std::optional<FittingPlan> usual_remedy(Predictor& predictor, const plan::Plan& plan, std::span<const std::string_view> named) {
  const auto given = assessed(predictor, plan);
  if (!given || given->may_fit()) return std::nullopt;
  auto usual = with_usual_keys(predictor, plan, named);
  if (!usual) return std::nullopt;
  auto with = assessed(predictor, usual->plan);
  if (!with || !with->may_fit()) return std::nullopt;
  return FittingPlan{std::move(*with), std::move(usual->changes)};
}

}  // namespace rehearsal::predict
