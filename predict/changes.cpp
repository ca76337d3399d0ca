#include "predict/changes.hpp"

#include <algorithm>
#include <chrono>

#include "base/error.hpp"
#include "plan/plan_keys.hpp"
#include "plan/schedules/model_chunks.hpp"
#include "predict/free_keys.hpp"
#include "predict/memory_risk.hpp"

namespace rehearsal::predict {
namespace {

constexpr std::string_view kMicroBatch = "micro_batch";

/// Of the many sizes that a micro-batch can have only 1 is tried, and those that are near, by halves and doubles; no budgets of memory for
/// recomputation, which take many times as long to plan as everything else.
bool is_left_out(std::string_view key, const plan::Plan& changed, const plan::Plan& plan, std::int64_t batch) {
  if (key == "recompute") return changed.recompute.rule == plan::RecomputeRule::Budget;
  if (key != kMicroBatch) return false;
  const auto now = plan.slot_batch(batch), then = changed.micro_batch.value_or(plan.replica_batch(batch));
  if (then == 1) return now == 1;
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

  [[nodiscard]] Predictor& predictor() const { return predictor_; }
  [[nodiscard]] bool over() const { return Clock::now() > end_; }
  /// Nothing where the plan cannot be used, or the time is over.
  [[nodiscard]] std::optional<Assessment> of(const plan::Plan& plan) { return over() ? std::nullopt : assessed(predictor_, plan); }

  /// Every change of one key.
  [[nodiscard]] std::vector<TriedChange> of_changes(const plan::Plan& plan) {
    std::vector<TriedChange> all;
    for (auto& change : changed_plans(predictor_, plan)) {
      if (is_left_out(change.key, change.plan, plan, predictor_.batch())) continue;
      if (auto assessment = of(change.plan)) all.push_back({std::move(change), std::move(*assessment)});
    }
    return all;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Predictor& predictor_;
  Clock::time_point end_;
};

/// All combinations of the values of those keys that save memory. What is known of a plan at once leaves few of them to be assessed.
class RemedySearch {
 public:
  RemedySearch(Trial& trial, const plan::Plan& plan, Goal goal) : trial_(trial), plan_(plan), goal_(goal) {}

  std::optional<FittingPlan> find() {
    find_keys();
    combine(0, plan_, 0);
    look_at_candidates();
    assess_candidates();
    return best();
  }

  /// Had this seen all combinations?
  [[nodiscard]] bool all_tried() const { return all_tried_; }

 private:
  // What an answer waits for: a framework's plan is looked at in some 50 microseconds, and assessed in a few times as many.
  static constexpr std::size_t kMostCombined = 20'000, kMostLookedAt = 5'000, kMostAssessed = 1'000;

  /// The plan with some changes, all together.
  struct Candidate {
    plan::Plan plan;
    int changed = 0;  ///< keys
    Seconds least{};  ///< that its step takes
  };

  [[nodiscard]] bool reached(const Assessment& a) const { return a.fits() && (goal_ == Goal::Fits || chance_of_running_out(a) <= kSafe); }

  /// Larger micro-batches need more memory by themselves, and may be what other changes make room for.
  void find_keys() {
    const auto before = trial_.of(plan_);
    const auto singles = trial_.of_changes(plan_);
    for (const auto& row : free_keys()) {
      const auto saves = [&](const TriedChange& one) {
        return one.change.key == row.key && (!before || one.assessment.memory_bytes < before->memory_bytes);
      };
      if (row.allowed_by.empty() && (row.key == kMicroBatch || std::ranges::any_of(singles, saves))) keys_.push_back(&row);
    }
  }

  void combine(std::size_t key, const plan::Plan& plan, int changed) {
    if (trial_.over() || candidates_.size() >= kMostCombined) {
      all_tried_ = false;
      return;
    }
    if (key == keys_.size()) {
      if (changed > 0) candidates_.push_back({plan, changed});
      return;
    }
    combine(key + 1, plan, changed);
    auto neutral = plan;
    keys_[key]->reset(neutral);
    for (const auto& other : keys_[key]->values(trial_.predictor(), neutral))
      if (other != plan && !is_left_out(keys_[key]->key, other, plan_, trial_.predictor().batch())) combine(key + 1, other, changed + 1);
  }

  /// Leaves those that may reach the goal, the quickest first; of equals the one with fewest changes.
  void look_at_candidates() {
    std::ranges::stable_sort(candidates_, {}, &Candidate::changed);
    if (candidates_.size() > kMostLookedAt) {
      candidates_.resize(kMostLookedAt);
      all_tried_ = false;
    }
    std::vector<Candidate> promising;
    for (auto& candidate : candidates_) {
      const auto outlook = outlook_of(candidate.plan);
      if (!outlook || !outlook->fits()) continue;
      candidate.least = outlook->step;
      promising.push_back(std::move(candidate));
    }
    candidates_ = std::move(promising);
    std::ranges::stable_sort(candidates_, {}, &Candidate::least);
  }

  /// Nothing where the plan cannot be used, or the time is over.
  [[nodiscard]] std::optional<Outlook> outlook_of(const plan::Plan& plan) {
    if (trial_.over()) {
      all_tried_ = false;
      return std::nullopt;
    }
    try {
      return trial_.predictor().outlook(plan);
    } catch (const Refusal&) {
      return std::nullopt;
    }
  }

  void assess_candidates() {
    std::size_t assessed = 0;
    for (auto& candidate : candidates_) {
      if (!found_.empty() && candidate.least > quickest_ * (1 + kWorthSaying)) return;
      if (trial_.over() || ++assessed > kMostAssessed) {
        all_tried_ = false;
        return;
      }
      auto assessment = trial_.of(candidate.plan);
      if (!assessment || !reached(*assessment)) continue;
      quickest_ = found_.empty() ? assessment->step : std::min(quickest_, assessment->step);
      found_.push_back({std::move(*assessment), changes_between(trial_.predictor(), plan_, candidate.plan)});
    }
  }

  /// The quickest; of those that differ in nothing worth a word the one with fewest changes.
  [[nodiscard]] std::optional<FittingPlan> best() {
    std::erase_if(found_, [&](const FittingPlan& f) { return f.assessment.step > quickest_ * (1 + kWorthSaying); });
    const auto rank = [](const FittingPlan& f) { return std::pair(f.changes.size(), f.assessment.step.value()); };
    const auto found = std::ranges::min_element(found_, {}, rank);
    return found == found_.end() ? std::nullopt : std::optional(std::move(*found));
  }

  Trial& trial_;
  const plan::Plan& plan_;
  Goal goal_;
  std::vector<const FreeKey*> keys_;
  std::vector<Candidate> candidates_;
  std::vector<FittingPlan> found_;
  Seconds quickest_{};
  bool all_tried_ = true;
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
  Trial trial(predictor, patience);
  RemedySearch search(trial, plan, goal);
  auto found = search.find();
  return {std::move(found), search.all_tried()};
}

int usual_chunks(int blocks, int pp) {
  constexpr int kBlocks = 2, kMost = 8;
  return std::clamp(blocks / pp / kBlocks, 1, kMost);
}

std::optional<UsualPlan> with_usual_keys(const Predictor& predictor, const plan::Plan& plan, std::span<const std::string_view> named) {
  UsualPlan usual{plan, {}};
  for (const auto& [key, value] : predictor.framework_for(plan).usual_keys) {
    const auto* row = plan::find_plan_key(key);
    if (std::ranges::find(named, row->key) != named.end() || plan::is_set(*row, plan)) continue;
    plan::set_plan_key(usual.plan, *row, value);
    const auto copies = plan.dp * plan.cp;
    if (plan::keys_without_effect(usual.plan, copies).size() > plan::keys_without_effect(plan, copies).size()) {
      plan::set_plan_key(usual.plan, *row, row->print(plan));
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
  if (!given || given->fits()) return std::nullopt;
  auto usual = with_usual_keys(predictor, plan, named);
  if (!usual) return std::nullopt;
  auto with = assessed(predictor, usual->plan);
  // Where it does not fit as recipes have it either, it is left as it is, unless that is out of the question.
  if (!with || !(given->may_fit() ? with->fits() : with->may_fit())) return std::nullopt;
  if (auto cut = with_usual_chunks(predictor, *usual, named))
    if (auto chunks = assessed(predictor, cut->plan); chunks && chunks->fits()) with = std::move(chunks), usual = std::move(cut);
  return FittingPlan{std::move(*with), std::move(usual->changes)};
}

}  // namespace rehearsal::predict
