#include "search/search.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <set>

#include "base/error.hpp"
#include "plan/lowering/stages.hpp"
#include "plan/schedules/schedule.hpp"
#include "search/ranking.hpp"

namespace rehearsal::search {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Assesses the plans of one job one by one and keeps account.
class Searching {
 public:
  Searching(predict::Predictor& predictor, const SearchOptions& options)
      : predictor_(predictor), options_(options), start_(std::chrono::steady_clock::now()) {}

  void run(Progress& progress) {
    auto options = options_;
    options.splits_samples = options.splits_samples || options.objective == "memory" || options.objective == "pareto";
    result_.exhausted = true;
    try_all(enumerate_plans(predictor_, options), progress);
    if (!good_.empty() || options.splits_samples || !result_.exhausted) return;
    options.splits_samples = true;
    try_all(enumerate_plans(predictor_, options), progress);
  }

  /// Not ranked; empty when no plan can run.
  [[nodiscard]] std::vector<predict::Assessment> take_good() { return std::move(good_); }
  /// How many plans were looked at and why others were not.
  [[nodiscard]] const SearchResult& account() const { return result_; }
  [[nodiscard]] std::string why_none() const {
    if (!nearest_.empty()) return nearest_;
    return last_refusal_.empty() ? "the space is empty" : last_refusal_;
  }

 private:
  [[nodiscard]] bool over_budget() const {
    return (options_.seconds && seconds_since(start_) > *options_.seconds) || (options_.plans && result_.searched >= *options_.plans);
  }

  void try_all(const std::vector<plan::Plan>& plans, Progress& progress) {
    for (const auto& plan : plans) {
      if (progress.stop_requested() || over_budget()) {
        result_.exhausted = false;
        break;
      }
      if (tried_.insert(to_text(plan)).second) try_plan(plan);
      progress.advance("plans", static_cast<double>(tried_.size()), static_cast<double>(plans.size()));
    }
  }

  void prune(const std::string& reason) { ++result_.pruned[reason]; }

  void try_plan(const plan::Plan& plan) {
    if (!loops_ && plan.micro_batch && *plan.micro_batch < predictor_.batch() / plan.dp) return prune("micro-batches cannot run");
    try {
      if (try_as_it_is(plan) && options_.objective != "memory" && options_.objective != "pareto") return;
      if (searches_recompute_) try_recomputing(plan);
    } catch (const plan::NoMicroBatches& refusal) {
      loops_ = plan.ranks() != plan.dp * plan.pp;  // other axes may be what a batch is too small for
      last_refusal_ = refusal.what();
      prune("micro-batches cannot run");
    } catch (const Refusal& refusal) {
      last_refusal_ = refusal.what();
      prune("cannot run");
    }
  }

  /// True when it fits.
  bool try_as_it_is(const plan::Plan& plan) {
    auto a = predictor_.closed_if_fits(plan);
    ++result_.searched;
    const bool fits = a.fits();
    if (fits) {
      if (options_.objective == "time") note_time(a.step.value());
      good_.push_back(std::move(a));
    } else {
      prune("does not fit in memory");
      note_nearest(a);
    }
    return fits;
  }

  /// As little as lets the plan fit; where bytes are an objective, as much as can be.
  void try_recomputing(plan::Plan plan) {
    plan.recompute = "selective";
    const bool fits = try_as_it_is(plan);
    plan.recompute = "full";
    if (!fits || options_.objective == "memory" || options_.objective == "pareto") static_cast<void>(try_as_it_is(plan));
  }

  /// Slower plans than the best so many are of no interest.
  void note_time(double seconds) {
    quickest_.insert(seconds);
    if (quickest_.size() > options_.top) quickest_.erase(std::prev(quickest_.end()));
    if (quickest_.size() == options_.top) best_seconds_ = *quickest_.rbegin();
  }

  void note_nearest(const predict::Assessment& a) {
    const auto missing = a.memory_bytes - a.memory_capacity;
    if (!nearest_.empty() && missing >= nearest_missing_) return;
    nearest_missing_ = missing;
    nearest_ = "the nearest is " + to_text(a.plan) + ", which " + predict::shortage(a);
  }

  predict::Predictor& predictor_;
  const SearchOptions& options_;
  std::chrono::steady_clock::time_point start_;
  std::vector<predict::Assessment> good_;
  SearchResult result_;
  bool searches_recompute_ = std::find(options_.free.begin(), options_.free.end(), "recompute") != options_.free.end();
  bool loops_ = true;  ///< until a plan with micro-batches has shown that the model has none
  std::set<std::string> tried_;
  std::multiset<double> quickest_;
  double best_seconds_ = std::numeric_limits<double>::infinity();
  std::int64_t nearest_missing_ = 0;
  std::string nearest_, last_refusal_;
};

/// What is left of the budget, in equal parts for the jobs left.
SearchOptions share_of_budget(SearchOptions options, std::int64_t searched, double seconds, std::size_t jobs_left) {
  const auto parts = static_cast<std::int64_t>(jobs_left);
  if (options.plans) options.plans = std::max<std::int64_t>(1, (*options.plans - searched) / parts);
  if (options.seconds) options.seconds = std::max(0.0, (*options.seconds - seconds) / static_cast<double>(parts));
  return options;
}

}  // namespace

SearchResult search(std::span<predict::Predictor* const> jobs, const SearchOptions& options, Progress& progress) {
  require_objective(options.objective);
  const auto start = std::chrono::steady_clock::now();
  SearchResult result;
  result.exhausted = true;
  std::vector<predict::Assessment> good;
  std::string why_none;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const auto own = share_of_budget(options, result.searched, seconds_since(start), jobs.size() - j);
    Searching searching(*jobs[j], own);
    searching.run(progress);
    std::ranges::move(searching.take_good(), std::back_inserter(good));
    why_none += (why_none.empty() ? "" : "; ") + (jobs.size() > 1 ? jobs[j]->platform().name + ": " : "") + searching.why_none();
    const auto& account = searching.account();
    result.searched += account.searched;
    for (const auto& [reason, count] : account.pruned) result.pruned[reason] += count;
    result.exhausted = result.exhausted && account.exhausted;
  }
  if (good.empty()) throw Refusal("no plan can run: " + why_none);
  result.plans = ranked(std::move(good), options.objective, options.top);
  result.seconds = seconds_since(start);
  return result;
}

SearchResult search(predict::Predictor& predictor, const SearchOptions& options, Progress& progress) {
  predict::Predictor* const one = &predictor;
  return search(std::span(&one, 1), options, progress);
}

plan::Plan with_best_values(predict::Predictor& predictor, const plan::Plan& plan) {
  SearchOptions options;
  options.fixed = plan;
  options.free = plan.searched;
  options.splits_samples = true;
  options.top = 1;
  Progress silent;
  return search(predictor, options, silent).plans.front().plan;
}

}  // namespace rehearsal::search
