#include "predict/changes.hpp"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/error.hpp"
#include "plan/plan_keys.hpp"
#include "plan/schedules/model_chunks.hpp"
#include "predict/free_keys.hpp"
#include "predict/memory_risk.hpp"

namespace rehearsal::predict {
namespace {

/// Of the many sizes that a micro-batch can have only 1 is tried, and those that are near, by halves and doubles; no budgets of memory for
/// recomputation, which take many times as long to plan as everything else.
bool is_left_out(const ChangedPlan& changed, const plan::Plan& plan, std::int64_t batch) {
  if (changed.key == "recompute") return changed.plan.recompute.rule == plan::RecomputeRule::Budget;
  if (changed.key != "micro_batch") return false;
  const auto now = plan.slot_batch(batch), then = changed.plan.micro_batch.value_or(plan.replica_batch(batch));
  if (then == 1) return false;
  constexpr std::int64_t kSteps[] = {2, 4, 16};
  return std::ranges::none_of(kSteps, [&](std::int64_t n) { return then == n * now || n * then == now; });
}

/// A change, and the plan with it.
struct TriedChange {
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

/// Plans are tried until its time is over: a plan of a thousand stages takes seconds to predict, and nobody waits minutes for a hint.
class Trial {
 public:
  Trial(Predictor& predictor, Seconds patience)
      : predictor_(predictor),
        end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(patience.value()))) {}

  [[nodiscard]] bool over() const { return Clock::now() > end_; }
  /// Nothing where the plan cannot be used, or the time is over.
  [[nodiscard]] std::optional<Assessment> of(const plan::Plan& plan) { return over() ? std::nullopt : assessed(predictor_, plan); }

  /// Every change of one key.
  [[nodiscard]] std::vector<TriedChange> of_changes(const plan::Plan& plan) {
    std::vector<TriedChange> all;
    for (auto& change : changed_plans(predictor_, plan)) {
      if (is_left_out(change, plan, predictor_.batch())) continue;
      if (auto assessment = of(change.plan)) all.push_back({std::move(change), std::move(*assessment)});
    }
    return all;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Predictor& predictor_;
  Clock::time_point end_;
};

constexpr double kDear = 1.1;  // a change that makes a step so much longer is compared with pairs of changes

class RemedySearch {
 public:
  RemedySearch(Trial& trial, const plan::Plan& plan, Goal goal, std::optional<Assessment> before)
      : trial_(trial), plan_(plan), goal_(goal), before_(std::move(before)), singles_(trial.of_changes(plan)) {}

  std::optional<FittingPlan> find() && {
    const TriedChange* quickest = nullptr;
    for (const auto& one : singles_)
      if (reached(one.assessment) && (quickest == nullptr || one.assessment.step < quickest->assessment.step)) quickest = &one;
    std::optional<FittingPlan> single;
    if (quickest != nullptr) single = FittingPlan{quickest->assessment, {quickest->change.text()}};
    if (single && before_ && single->assessment.step <= before_->step * kDear) return single;
    find_savers();
    auto two = best_of_two();
    if (single) return two && two->assessment.step * kDear < single->assessment.step ? std::move(two) : std::move(single);
    if (two) return two;
    if (!add_changes()) return std::nullopt;
    take_back();
    FittingPlan fitting{*now_, {}};
    for (const auto& [key, change] : chosen_)
      if (change != nullptr) fitting.changes.push_back(change->text());
    return fitting;
  }

 private:
  [[nodiscard]] bool reached(const Assessment& a) const { return a.fits() && (goal_ == Goal::Fits || chance_of_running_out(a) <= kSafe); }

  /// Of every key the changes that save memory, but for those that another one of the key is better than in memory and time.
  void find_savers() {
    const auto better = [](const TriedChange& a, const TriedChange& b) {
      const auto rank = [](const TriedChange& t) { return std::pair(t.assessment.memory_bytes, t.assessment.step.value()); };
      return a.change.key == b.change.key && rank(a) < rank(b) && a.assessment.step <= b.assessment.step;
    };
    for (const auto& one : singles_) {
      if (before_ && one.assessment.memory_bytes >= before_->memory_bytes) continue;
      if (std::ranges::none_of(singles_, [&](const TriedChange& other) { return better(other, one); })) savers_.push_back(&one);
    }
  }

  std::optional<FittingPlan> best_of_two() {
    std::optional<FittingPlan> best;
    for (std::size_t a = 0; a < savers_.size(); ++a)
      for (std::size_t b = a + 1; b < savers_.size(); ++b) {
        const auto &one = savers_[a]->change, &other = savers_[b]->change;
        if (one.key == other.key) continue;
        auto both = trial_.of(with_changes(one.plan, other));
        if (both && reached(*both) && (!best || both->step < best->assessment.step))
          best = FittingPlan{std::move(*both), {one.text(), other.text()}};
      }
    return best;
  }

  /// Of every key the change that saves most memory, the greatest saving first, until the goal is reached.
  bool add_changes() {
    auto order = savers_;
    std::ranges::stable_sort(order, {}, [](const TriedChange* t) { return t->assessment.memory_bytes; });
    std::set<std::string_view> keys;
    for (const auto* one : order) {
      if (!keys.insert(one->change.key).second) continue;
      chosen_.emplace_back(one->change.key, &one->change);
      auto next = trial_.of(with_chosen());
      if (!next || (now_ && next->memory_bytes >= now_->memory_bytes)) {  // not together with the others
        chosen_.pop_back();
        continue;
      }
      now_ = std::move(next);
      if (reached(*now_)) return true;
    }
    return false;
  }

  /// For every key the value with which the plan reaches the goal and is quickest, the old one among them.
  void take_back() {
    for (auto& [key, change] : chosen_) {
      std::vector<const ChangedPlan*> others{nullptr};
      for (const auto& one : singles_)
        if (one.change.key == key) others.push_back(&one.change);
      auto best = change;
      for (const auto* other : others) {
        change = other;
        auto next = trial_.of(with_chosen());
        if (next && reached(*next) && next->step < now_->step) now_ = std::move(next), best = other;
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

  Trial& trial_;
  const plan::Plan& plan_;
  Goal goal_;
  std::optional<Assessment> before_;
  std::vector<TriedChange> singles_;
  std::vector<const TriedChange*> savers_;
  std::vector<std::pair<std::string_view, const ChangedPlan*>> chosen_;  ///< by key; nullptr: as it was
  std::optional<Assessment> now_;
};

}  // namespace

std::string as_another_runs_it(const Assessment& changed, const Assessment& now) {
  return changed.framework == now.framework ? "" : " (as " + changed.framework + " runs it)";
}

std::vector<Change> helpful_changes(Predictor& predictor, const Assessment& now) {
  const auto closed = predictor.closed(now.plan).step;  // both sides by one evaluator
  std::vector<Change> changes;
  for (const auto& [change, assessment] : Trial(predictor, kTimeForRemedies).of_changes(now.plan)) {
    const double quicker = 1 - assessment.step / closed;
    if (assessment.fits() && quicker >= kWorthSaying)
      changes.push_back({change.text() + as_another_runs_it(assessment, now), quicker, assessment.memory_bytes});
  }
  std::ranges::stable_sort(changes, std::greater(), &Change::quicker);
  return changes;
}

Remedy cheapest_remedy(Predictor& predictor, const plan::Plan& plan, Goal goal, Seconds patience) {
  auto before = assessed(predictor, plan);
  Trial trial(predictor, patience);
  auto found = RemedySearch(trial, plan, goal, std::move(before)).find();
  return {std::move(found), !trial.over()};
}

int usual_chunks(int blocks, int pp) {
  constexpr int kBlocks = 2, kMost = 8;
  return std::clamp(blocks / pp / kBlocks, 1, kMost);
}

std::optional<UsualPlan> with_usual_keys(const Predictor& predictor, const plan::Plan& plan, std::span<const std::string_view> named) {
  UsualPlan usual{plan, {}};
  const plan::Plan neutral;
  for (const auto& [key, value] : predictor.framework_for(plan).usual_keys) {
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

std::optional<UsualPlan> with_usual_chunks(Predictor& predictor, const UsualPlan& usual, std::span<const std::string_view> named) {
  const auto said = [&](std::string_view key) { return std::ranges::find(named, key) != named.end(); };
  auto cut = usual;
  auto& plan = cut.plan;
  const auto blocks = static_cast<int>(predictor.limits().blocks);
  if (!predictor.framework_for(plan).interleaves || said("schedule") || said("interleave") || plan.schedule != plan::Plan{}.schedule)
    return std::nullopt;
  if (plan.pp == 1 || blocks % plan.pp != 0) return std::nullopt;
  plan.interleave = usual_chunks(blocks, plan.pp);
  while (blocks / plan.pp % plan.interleave != 0) --plan.interleave;
  plan.schedule = "interleaved";
  const auto micro_batches = static_cast<int>(plan.replica_batch(predictor.batch()) / plan.slot_batch(predictor.batch()));
  // Megatron's schedule wants as many micro-batches as go round all stages.
  if (plan.interleave == 1 || micro_batches % plan.pp != 0 || !plan::schedule_violations(plan, micro_batches).empty()) return std::nullopt;
  cut.changes.push_back("schedule=interleaved,interleave=" + std::to_string(plan.interleave));
  return cut;
}

std::optional<FittingPlan> usual_remedy(Predictor& predictor, const plan::Plan& plan, std::span<const std::string_view> named) {
  const auto given = assessed(predictor, plan);
  if (!given || given->may_fit()) return std::nullopt;
  auto usual = with_usual_keys(predictor, plan, named);
  if (!usual) return std::nullopt;
  auto with = assessed(predictor, usual->plan);
  if (!with || !with->may_fit()) return std::nullopt;
  if (auto cut = with_usual_chunks(predictor, *usual, named))
    if (auto chunks = assessed(predictor, cut->plan); chunks && chunks->may_fit()) with = std::move(chunks), usual = std::move(cut);
  return FittingPlan{std::move(*with), std::move(usual->changes)};
}

}  // namespace rehearsal::predict
