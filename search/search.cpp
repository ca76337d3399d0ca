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
  Searching(const predict::Job& job, const SearchOptions& options)
      : job_(job), options_(options), evaluator_(predict::closed_form_evaluator()), start_(std::chrono::steady_clock::now()) {}

  void run(Progress& progress) {
    auto options = options_;
    options.splits_samples = options.splits_samples || options.objective == "memory" || options.objective == "pareto";
    result_.exhausted = true;
    try_all(enumerate_plans(job_, options), progress);
    if (!good_.empty() || options.splits_samples || !result_.exhausted) return;
    options.splits_samples = true;
    try_all(enumerate_plans(job_, options), progress);
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

  void try_plan(plan::Plan plan) {
    if (!loops_ && plan.micro_batch && *plan.micro_batch < job_.training.batch / plan.dp) return prune("micro-batches cannot run");
    if (least_seconds(plan) > best_seconds_) return prune("cannot be among the quickest");
    if (plan.pp > 1 && plan.cuts.empty()) plan.cuts = cuts(plan);
    if (const auto violations = validate(job_.training, plan); !violations.empty())
      return prune(violations.front().key + ": " + violations.front().remedy);
    const int shares = plan.pp * plan.tp * plan.ep * (plan.zero > 0 ? plan.dp : 1);
    const auto floor = static_cast<double>(weights_floor()) / shares;
    const auto capacity = platforms::device_of(job_.platform, 0).memory.value;
    if (floor > capacity.value()) {
      if (last_refusal_.empty())
        last_refusal_ = to_text(plan) + " needs at least " + to_text(Bytes(floor)) +
                        " of each device for parameters and optimizer, and it has " + to_text(capacity) + "; use more devices";
      return prune("parameters alone exceed the memory");
    }
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
    auto a = predict::assess(job_, plan, *evaluator_);
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
    const bool little = try_as_it_is(plan);
    plan.recompute = "full";
    const bool much = (!little || options_.objective == "memory" || options_.objective == "pareto") && try_as_it_is(plan);
    if (little || !much) return;
    plan.recompute = budget_that_fits();
    (void)try_as_it_is(plan);
  }

  /// The bytes of an arena that fills the device, as a budget of recomputation.
  [[nodiscard]] std::string budget_that_fits() const {
    const auto& profile = job_.model.profile();
    const double capacity = platforms::device_of(job_.platform, 0).memory.value.value();
    const double arena = (capacity - profile.allocator_fixed.value()) / profile.allocator_factor;
    return std::to_string(static_cast<std::int64_t>(std::max(1.0, arena))) + "B";
  }

  /// Stages of equal predicted time. Written into the plan, so that a run cuts where the search did.
  std::vector<std::string> cuts(const plan::Plan& plan) {
    auto& known = cuts_[{plan.dp, plan.pp}];
    if (!known.empty()) return known;
    std::vector<double> seconds(job_.training.graph.nodes().size(), 0.0);
    const int threads = predict::threads_per_rank(job_.platform, plan.ranks());
    for (std::size_t n = 0; n < seconds.size(); ++n) {
      const auto& node = job_.training.graph.nodes()[n];
      const auto owner = node.phase == graph::Phase::Forward ? static_cast<graph::NodeId>(n) : node.forward;
      if (owner != graph::NodeId::None && node.phase != graph::Phase::Update)
        seconds[graph::index(owner)] += share_seconds(node, plan, threads);
    }
    known = plan::balanced_cut_names(job_.training, plan.pp, [&](graph::NodeId n) { return seconds[graph::index(n)]; });
    return known;
  }

  /// Time of a node on one replica's share of the batch.
  [[nodiscard]] double share_seconds(const graph::Node& node, const plan::Plan& plan, int threads) const {
    const graph::NodeTypes types(job_.training.graph, node);
    const auto& row = graph::schema(node);
    const auto work = graph::work_of(row, types.view());
    costmodel::KernelCase kernel;
    kernel.op = std::string(row.name);
    kernel.family = row.family;
    kernel.work = {work.flops / plan.dp, work.bytes / plan.dp};
    kernel.threads = threads;
    return job_.model.kernel(kernel).seconds.value();
  }

  /// Seconds below which no step can be, by work alone: kernels on a part of their work are not quicker than their share, up to kMargin.
  double least_seconds(const plan::Plan& plan) {
    constexpr double kMargin = 0.8;
    auto& whole = work_seconds_[plan.ranks()];
    if (whole == 0) {
      const int threads = predict::threads_per_rank(job_.platform, plan.ranks());
      for (const auto& node : job_.training.graph.nodes()) whole += share_seconds(node, {}, threads);
    }
    const auto& row = plan::schedule(plan.schedule);
    const bool fills = plan.pp > 1 && plan.micro_batch && row.plain();
    const std::int64_t replica = std::max<std::int64_t>(1, job_.training.batch / plan.dp);
    const double bubble = fills ? row.bubble(plan.pp, static_cast<int>((replica + *plan.micro_batch - 1) / *plan.micro_batch)) : 0;
    return kMargin * whole / plan.ranks() * (1 + bubble);
  }

  /// Slower plans than the best so many are of no interest.
  void note_time(double seconds) {
    quickest_.insert(seconds);
    if (quickest_.size() > options_.top) quickest_.erase(std::prev(quickest_.end()));
    if (quickest_.size() == options_.top) best_seconds_ = *quickest_.rbegin();
  }

  /// Bytes that every plan of one stage must hold: parameters, slots, states.
  [[nodiscard]] std::int64_t weights_floor() const {
    double bytes = 0;
    for (const auto& t : job_.training.graph.tensors())
      if (t.role == graph::Role::Parameter || t.role == graph::Role::Slot) bytes += graph::size_of(t.type).value();
    return static_cast<std::int64_t>(bytes * 0.5);  // stages need not be equal: half a share is a safe bound
  }

  void note_nearest(const predict::Assessment& a) {
    const auto missing = a.memory_bytes - a.memory_capacity;
    if (!nearest_.empty() && missing >= nearest_missing_) return;
    nearest_missing_ = missing;
    nearest_ = "the nearest is " + to_text(a.plan) + ", which " + predict::shortage(a);
  }

  const predict::Job& job_;
  const SearchOptions& options_;
  std::unique_ptr<predict::StepEvaluator> evaluator_;
  std::chrono::steady_clock::time_point start_;
  std::vector<predict::Assessment> good_;
  SearchResult result_;
  std::map<std::pair<int, int>, std::vector<std::string>> cuts_;
  bool searches_recompute_ = std::find(options_.free.begin(), options_.free.end(), "recompute") != options_.free.end();
  bool loops_ = true;  ///< until a plan with micro-batches has shown that the model has none
  std::set<std::string> tried_;
  std::map<int, double> work_seconds_;  ///< by ranks: of all nodes on one of them
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

SearchResult search(std::span<const predict::Job> jobs, const SearchOptions& options, Progress& progress) {
  require_objective(options.objective);
  const auto start = std::chrono::steady_clock::now();
  SearchResult result;
  result.exhausted = true;
  std::vector<predict::Assessment> good;
  std::string why_none;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const auto own = share_of_budget(options, result.searched, seconds_since(start), jobs.size() - j);
    Searching searching(jobs[j], own);
    searching.run(progress);
    std::ranges::move(searching.take_good(), std::back_inserter(good));
    why_none += (why_none.empty() ? "" : "; ") + (jobs.size() > 1 ? jobs[j].platform.name + ": " : "") + searching.why_none();
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

SearchResult search(const predict::Job& job, const SearchOptions& options, Progress& progress) {
  return search(std::span(&job, 1), options, progress);
}

plan::Plan with_best_values(const predict::Job& job, const plan::Plan& plan) {
  SearchOptions options;
  options.fixed = plan;
  options.free = plan.searched;
  options.splits_samples = true;
  options.top = 1;
  Progress silent;
  return search(job, options, silent).plans.front().plan;
}

}  // namespace rehearsal::search
