#include "search/search.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "base/join.hpp"
#include "predict/changes.hpp"
#include "search/shortlist.hpp"
#include "search/why_not.hpp"

namespace rehearsal::search {
namespace {

using Clock = std::chrono::steady_clock;
using predict::Assessment;

constexpr double kDefaultSeconds = 60;
constexpr double kKeptForPlaying = 0.15;  // of the budget

constexpr const char* kDoesNotFit = "does not fit in memory";
constexpr const char* kCannotWin = "cannot be better than the best";
constexpr const char* kCannotRun = "cannot run";
constexpr const char* kRecomputesInVain = "recomputes though it fits without";

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// An answer with what failures make of it.
Assessment disturbed(Assessment a, const SearchOptions& o) {
  if (o.goodput) a.goodput = o.goodput(a);
  return a;
}

Shortlist::Options shortlist_of(const SearchOptions& o) {
  return {objective(o.objective), std::max(o.top, o.player == nullptr ? std::size_t{1} : o.confirm), o.folds, o.limits, o.steps};
}

/// What one predictor may still spend.
struct SearchBudget {
  double seconds = 0;                 ///< since the search of this predictor began
  std::optional<std::int64_t> plans;  ///< assessed
};

/// Assesses the plans of one predictor one by one and keeps account.
class Searching {
 public:
  Searching(predict::Predictor& predictor, const SearchOptions& options, const SearchBudget& budget, Shortlist& best, Progress& progress)
      : predictor_(predictor), options_(options), budget_(budget), best_(best), progress_(progress) {}

  void run() {
    const PlanSpace space(predictor_, options_.fixed, {free_keys(), options_.allowed, options_.ranks});
    auto shapes = scouted(space);
    climb(space);
    for (const auto& shape : shapes) {
      if (stops()) break;
      walk(space, shape);
      progress_.advance("kinds of plans", static_cast<double>(++walked_), static_cast<double>(shapes.size()));
    }
    result_.exhausted = !stopped_;
  }

  /// Plans that split the model alike follow each other, so that they share what is found out about that.
  void run(std::span<const plan::Plan> given) {
    given_ = true;
    std::vector<std::size_t> order(given.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t n) {
      const auto& p = given[n];
      return std::tie(p.tp, p.cp, p.ep, p.sequence_parallel, p.pp, p.dp, p.micro_batch, p.order, p.zero, p.zero_group, p.recompute);
    });
    std::map<std::size_t, std::string> refused;
    for (const auto n : order) {
      if (stops()) break;
      if (auto why = assess(given[n]); !why.empty()) refused[n] = std::move(why);
      progress_.advance("plans", static_cast<double>(++walked_), static_cast<double>(given.size()));
    }
    for (const auto& [n, why] : refused) result_.refused.push_back({to_text(given[n]), why + usually(given[n])});
    result_.exhausted = !stopped_;
  }

  /// How many plans were looked at and why others were not.
  [[nodiscard]] SearchResult& account() { return result_; }
  /// Plans that were given, and are too large by no more than predictions of memory are wrong by.
  [[nodiscard]] std::vector<predict::Assessment>& doubtful() { return doubtful_; }
  [[nodiscard]] std::string why_none() {
    if (nearest_) return shortage_of(*nearest_) + with_other_keys(nearest_->plan);
    if (!last_refusal_.empty()) return last_refusal_;
    if (stopped_) return "the search was stopped before it found one";
    try {
      static_cast<void>(predictor_.outlook(options_.fixed));  // no shape has its degrees: it says why
    } catch (const Refusal& refusal) {
      return refusal.what();
    }
    return "the space is empty";
  }

 private:
  [[nodiscard]] std::vector<std::string> free_keys() const {
    auto free = options_.free;
    free.insert(free.end(), options_.fixed.searched.begin(), options_.fixed.searched.end());
    return free;
  }

  /// What is not searched, such as offload, may make the nearest plan fit.
  [[nodiscard]] std::string with_other_keys(const plan::Plan& nearest) {
    constexpr Seconds kPatience{2};
    const auto remedy = predict::cheapest_remedy(predictor_, nearest, predict::Goal::Fits, kPatience);
    if (!remedy.plan) return "";
    return "; with " + joined(remedy.plan->changes, ",") + " it needs " +
           to_text(Bytes(static_cast<double>(remedy.plan->assessment.memory_bytes))) +
           " (not all of these keys are searched: put them into --plan)";
  }

  /// A plan of a list is taken as it is written; with what recipes add to it, it may fit.
  [[nodiscard]] std::string usually(const plan::Plan& plan) const {
    const auto usual = predict::with_usual_keys(predictor_, plan, {});
    if (!usual || !may_fit_at_all(usual->plan)) return "";
    return "; recipes of " + predictor_.framework_for(plan).name + " have it with " + joined(usual->changes, ",") + ", and so it may fit";
  }

  /// Of thousands of plans: by memory alone.
  [[nodiscard]] bool may_fit_at_all(const plan::Plan& plan) const {
    try {
      return predictor_.outlook(plan).may_fit();
    } catch (const Refusal&) {
      return false;
    }
  }

  [[nodiscard]] bool stops() {
    stopped_ = stopped_ || progress_.stop_requested() || seconds_since(start_) > budget_.seconds ||
               (budget_.plans && result_.searched >= *budget_.plans);
    return stopped_;
  }

  /// Shapes, those first whose quickest scout is quickest. A scout is a plan with few micro-batches' worth of samples, sharded updates and
  /// as little recomputation as lets it fit.
  std::vector<plan::Plan> scouted(const PlanSpace& space) {
    auto shapes = space.shapes();
    std::vector<std::pair<double, plan::Plan>> scouts;
    for (auto& shape : shapes) {
      if (stops()) break;
      const auto sizes = space.micro_batches(shape);
      double quickest = std::numeric_limits<double>::infinity();
      if (!sizes.empty()) quickest = scout(space, sizes.front());
      if (sizes.size() > 1) quickest = std::min(quickest, scout(space, sizes.back()));
      scouts.emplace_back(quickest, std::move(shape));
      progress_.advance("kinds of plans, first look", static_cast<double>(scouts.size()), static_cast<double>(shapes.size()));
    }
    std::ranges::stable_sort(scouts, {}, [](const auto& s) { return s.first; });
    std::vector<plan::Plan> sorted;
    for (auto& [seconds, shape] : scouts) sorted.push_back(std::move(shape));
    return sorted;
  }

  /// Value of the objective, or infinity where it does not fit or run.
  double scout(const PlanSpace& space, const plan::Plan& size) {
    const auto variants = space.variants(size);
    if (variants.empty()) return std::numeric_limits<double>::infinity();
    const auto& typical = *std::ranges::max_element(variants, {}, [](const plan::Plan& p) {
      return std::tuple(p.sequence_parallel, p.zero == 1, p.order == plan::Plan().order, p.attention == plan::AttentionForm::Gather,
                        p.interleave, p.schedule == "1f1b");
    });
    for (const auto& plan : space.recomputing(typical)) {
      if (stops()) break;
      scouted_.insert(to_text(plan));
      last_value_ = std::numeric_limits<double>::infinity();
      if (assess(plan).empty()) return last_value_;
    }
    return std::numeric_limits<double>::infinity();
  }

  /// From the best plan to its best neighbour, until there is no better one.
  void climb(const PlanSpace& space) {
    plan::Plan from;
    while (!best_.plans().empty() && best_.plans().front().answer.plan != from && !stops()) {
      if (best_.plans().front().answer.platform != predictor_.platform().name) return;
      from = best_.plans().front().answer.plan;
      for (const auto& neighbour : space.neighbours(from)) {
        if (stops()) return;
        if (scouted_.insert(to_text(neighbour)).second) static_cast<void>(assess(neighbour));
      }
    }
  }

  /// Every plan of a shape. Larger micro-batches need more memory: from the first size on of which nothing fits, none is looked at.
  void walk(const PlanSpace& space, const plan::Plan& shape) {
    const auto sizes = space.micro_batches(shape);
    for (std::size_t at = 0; at < sizes.size() && !stops(); ++at) {
      if (!loops_ && sizes[at].micro_batch && *sizes[at].micro_batch < predictor_.batch() / shape.dp) {
        ++result_.pruned["micro-batches cannot run"];
        continue;
      }
      const auto variants = space.variants(sizes[at]);
      if (none_fits(space, variants)) return skip(space, std::span(sizes).subspan(at));
      for (const auto& variant : variants)
        if (!try_recomputing(space, variant)) return;
    }
  }

  /// Whether even those do not fit that keep least: sharded as far as can be, everything recomputed. Where all of those are refused, as
  /// some degrees of sharding are for pipelines, those count that keep least of the others.
  bool none_fits(const PlanSpace& space, const std::vector<plan::Plan>& variants) {
    const auto most = std::ranges::max(variants, {}, [](const plan::Plan& p) { return std::pair(p.sequence_parallel, p.zero); });
    bool asked = false;
    for (int zero = most.zero; zero >= 0 && !asked; zero = std::min(zero - 1, 1))
      for (const auto& variant : variants) {
        // Under the last degree of sharding, layers at work are gathered again: a small model may need more than with the one before.
        const bool least = variant.zero <= zero && variant.zero >= (zero == most.zero ? zero - 1 : zero) &&
                           variant.sequence_parallel == most.sequence_parallel && variant.order == most.order &&
                           variant.zero_group == most.zero_group;
        const auto fits = least ? fits_recomputing(space, variant) : std::nullopt;
        if (fits.value_or(false)) return false;
        asked = asked || fits;
      }
    return asked;
  }

  /// Nothing: it is refused.
  std::optional<bool> fits_recomputing(const PlanSpace& space, const plan::Plan& variant) {
    try {
      const auto outlook = predictor_.outlook(space.recomputing(variant).back());
      return outlook.memory_bytes == 0 || outlook.fits();
    } catch (const Refusal&) {
      return std::nullopt;
    }
  }

  void skip(const PlanSpace& space, std::span<const plan::Plan> sizes) {
    for (const auto& size : sizes)
      for (const auto& variant : space.variants(size)) {
        const auto plans = space.recomputing(variant);
        result_.pruned[kDoesNotFit] += static_cast<std::int64_t>(plans.size());
        if (!nearest_ && !plans.empty()) static_cast<void>(assess(plans.back()));
      }
  }

  /// False when the search stops.
  bool try_recomputing(const PlanSpace& space, const plan::Plan& variant) {
    const auto* by = objective(options_.objective);
    const auto plans = space.recomputing(variant);
    for (std::size_t n = 0; n < plans.size(); ++n) {
      if (stops()) return false;
      if (!scouted_.empty() && scouted_.contains(to_text(plans[n]))) continue;
      useful_ = false;
      static_cast<void>(assess(plans[n]));
      if (n == 0 && (refused_ || too_large_))
        if (const auto* why = why_none_between(plans.back())) {
          result_.pruned[why] += static_cast<std::int64_t>(plans.size() - 1);
          return true;
        }
      if (!useful_ || plans[n].recompute.rule != plan::RecomputeRule::None || by == nullptr || !by->hurt_by_recomputing) continue;
      result_.pruned[kRecomputesInVain] += static_cast<std::int64_t>(plans.size() - n - 1);
      return true;
    }
    return true;
  }

  /// Where the plan that keeps everything was refused or is too large: why those that keep less cannot be either, from the one that keeps
  /// least. nullptr: they may.
  [[nodiscard]] const char* why_none_between(const plan::Plan& least) {
    try {
      const auto outlook = predictor_.outlook(least);
      if (outlook.fits() || !outlook.checked) return nullptr;
      note_nearest({least, outlook.memory_bytes - outlook.memory_capacity, true});
      return kDoesNotFit;
    } catch (const Refusal&) {
      return refused_ ? kCannotRun : nullptr;
    }
  }

  std::string prune(const char* reason) {
    ++result_.pruned[reason];
    return reason;
  }

  /// Empty when the plan was assessed and fits, or cannot win; otherwise why not.
  std::string assess(const plan::Plan& plan) {
    refused_ = too_large_ = false;
    try {
      return assess_known(plan);
    } catch (const plan::NoMicroBatches& refusal) {
      loops_ = plan.ranks() != plan.dp * plan.pp;  // other axes may be what a batch is too small for
      last_refusal_ = refusal.what();
      prune("micro-batches cannot run");
    } catch (const Refusal& refusal) {
      refused_ = true;
      last_refusal_ = refusal.what();
      prune(kCannotRun);
    }
    return last_refusal_;
  }

  std::string assess_known(const plan::Plan& plan) {
    const auto outlook = predictor_.outlook(plan);
    if (given_ && !outlook.fits() && outlook.may_fit() && may_fit(plan)) return "";
    if (!outlook.fits()) {
      too_large_ = true;
      note_nearest({plan, outlook.memory_bytes - outlook.memory_capacity, outlook.checked});
      prune(kDoesNotFit);
      return shortage_text(outlook);
    }
    if ((!given_ || outlook.checked) && !best_.may_enter(outlook)) {  // whoever gave a plan wants to know whether it is refused
      useful_ = least_excess(options_.limits, outlook, options_.steps) <= 0;
      prune(kCannotWin);
      return "";
    }
    auto a = disturbed(predictor_.closed(plan), options_);
    ++result_.searched;
    if (!a.fits()) {
      note_nearest({plan, a.memory_bytes - a.memory_capacity, true});
      prune(kDoesNotFit);
      --result_.searched;
      return predict::shortage(a);
    }
    useful_ = excess(options_.limits, a, options_.steps) <= 0;
    last_value_ = value_of(objective(options_.objective), a);
    best_.enter(std::move(a));
    return "";
  }

  /// A plan that its user names is answered as `estimate` answers it: with a warning, behind those that fit.
  bool may_fit(const plan::Plan& plan) {
    auto a = disturbed(predictor_.closed(plan), options_);
    if (!a.may_fit() || !options_.limits.empty()) return false;
    ++result_.searched;
    a.warnings.push_back(predict::doubt(a));
    doubtful_.push_back(std::move(a));
    return true;
  }

  static std::string shortage_text(const predict::Outlook& o) {
    return std::string("needs ") + (o.checked ? "" : "at least ") + to_text(Bytes(static_cast<double>(o.memory_bytes))) +
           ", and the device has " + to_text(Bytes(static_cast<double>(o.memory_capacity)));
  }

  /// A plan that does not fit.
  struct TooLarge {
    plan::Plan plan;
    std::int64_t missing = 0;
    bool exactly = true;  ///< else at least
  };

  /// What is known exactly comes before what is not.
  void note_nearest(const TooLarge& found) {
    const auto rank = [](const TooLarge& p) { return std::pair(!p.exactly, p.missing); };
    if (!nearest_ || rank(found) < rank(*nearest_)) nearest_ = found;
  }

  [[nodiscard]] std::string shortage_of(const TooLarge& nearest) const {
    return "the nearest is " + to_text(nearest.plan) + ", which " + predict::shortage(predictor_.closed(nearest.plan));
  }

  predict::Predictor& predictor_;
  const SearchOptions& options_;
  SearchBudget budget_;
  Shortlist& best_;
  Progress& progress_;
  Clock::time_point start_ = Clock::now();
  SearchResult result_;
  std::set<std::string> scouted_;  ///< need not be assessed again
  std::int64_t walked_ = 0;
  bool stopped_ = false;
  bool loops_ = true;                         ///< until a plan with micro-batches has shown that the model has none
  bool refused_ = false, too_large_ = false;  ///< the plan assessed last
  bool useful_ = false;  ///< the plan assessed last fits, and keeps all limits (a limit of memory may need recomputation)
  bool given_ = false;
  std::vector<predict::Assessment> doubtful_;
  double last_value_ = 0;
  std::optional<TooLarge> nearest_;
  std::string last_refusal_;
};

/// All predictors together.
class Choice {
 public:
  Choice(std::span<predict::Predictor* const> jobs, const SearchOptions& options, Progress& progress)
      : jobs_(jobs), options_(options), progress_(progress), best_(shortlist_of(options)) {}

  /// `search`: what one predictor does.
  template <class Search>
  SearchResult run(const Search& search) {
    std::string why_none;
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      Searching searching(*jobs_[j], options_, budget(jobs_.size() - j), best_, progress_);
      search(searching);
      why_none += (why_none.empty() ? "" : "; ") + (jobs_.size() > 1 ? jobs_[j]->platform().name + ": " : "") + searching.why_none();
      add(searching.account(), j == 0);
      std::ranges::move(searching.doubtful(), std::back_inserter(doubtful_));
    }
    if (best_.plans().empty() && doubtful_.empty()) throw Refusal("no plan can run: " + why_none);
    if (!best_.plans().empty() && !best_.within_limits()) refuse_over_limits();
    rank();
    result_.seconds = seconds_since(start_);
    return std::move(result_);
  }

 private:
  /// What is left, in equal parts for the jobs left.
  [[nodiscard]] SearchBudget budget(std::size_t jobs_left) const {
    const double whole = options_.seconds.value_or(options_.plans ? std::numeric_limits<double>::infinity() : kDefaultSeconds);
    const double searching = whole * (options_.player == nullptr ? 1 : 1 - kKeptForPlaying);
    SearchBudget own{std::max(0.0, (searching - seconds_since(start_)) / static_cast<double>(jobs_left)), {}};
    if (options_.plans) own.plans = std::max<std::int64_t>(1, (*options_.plans - result_.searched) / static_cast<std::int64_t>(jobs_left));
    return own;
  }

  void add(SearchResult& account, bool first) {
    result_.searched += account.searched;
    for (const auto& [reason, count] : account.pruned) result_.pruned[reason] += count;
    result_.exhausted = (first || result_.exhausted) && account.exhausted;
    std::ranges::move(account.refused, std::back_inserter(result_.refused));
  }

  [[noreturn]] void refuse_over_limits() const {
    const auto& nearest = best_.plans().front().answer;
    const bool all = result_.exhausted;
    throw Refusal(std::string(all ? "no plan keeps the limits"
                                  : "none of the " + std::to_string(result_.searched) + " plans that were assessed keeps the limits") +
                  ": the nearest is " + to_text(nearest.plan) + ", with " + excess_text(options_.limits, nearest, options_.steps) +
                  (all ? "" : "; a larger --budget looks at more"));
  }

  void rank() {
    for (const auto& listed : best_.plans()) result_.plans.push_back({listed.answer, listed.answer, false, {}, listed.alike});
    for (const auto& a : doubtful_) result_.plans.push_back({a, a, false, {}, {}});
    play_best();
    const auto* by = objective(options_.objective);
    std::ranges::stable_sort(result_.plans, {},
                             [&](const RankedPlan& p) { return std::tuple(!p.answer.fits(), !p.played, value_of(by, p.answer)); });
    if (by != nullptr && result_.plans.size() > options_.top) result_.plans.resize(std::max<std::size_t>(1, options_.top));
    for (std::size_t n = 1; n < result_.plans.size(); ++n)
      result_.plans[n].why_not = why_not(result_.plans[n].answer, result_.plans[0].answer, by);
  }

  void play_best() {
    if (options_.player == nullptr) return;
    double longest = 0;
    const double whole = options_.seconds.value_or(kDefaultSeconds);
    for (std::size_t n = 0; n < std::min(options_.confirm, result_.plans.size()); ++n) {
      const auto began = Clock::now();
      if (n > 0 && (progress_.stop_requested() || seconds_since(start_) + longest > whole)) break;
      auto& plan = result_.plans[n];
      auto& job = predictor_of(plan.answer.platform);
      try {
        plan.answer = disturbed(job.played(job.playable(plan.answer.plan), *options_.player, nullptr), options_);
      } catch (const EnvironmentFailure& failure) {
        result_.not_played = failure.what();
        return;
      }
      plan.played = true;
      longest = std::max(longest, seconds_since(began));
      progress_.advance("best plans played", static_cast<double>(n + 1), static_cast<double>(options_.confirm));
    }
  }

  [[nodiscard]] predict::Predictor& predictor_of(const std::string& platform) const {
    return **std::ranges::find_if(jobs_, [&](const predict::Predictor* p) { return p->platform().name == platform; });
  }

  std::span<predict::Predictor* const> jobs_;
  const SearchOptions& options_;
  Progress& progress_;
  Shortlist best_;
  std::vector<predict::Assessment> doubtful_;
  Clock::time_point start_ = Clock::now();
  SearchResult result_;
};

}  // namespace

SearchResult search(std::span<predict::Predictor* const> jobs, const SearchOptions& options, Progress& progress) {
  return Choice(jobs, options, progress).run([](Searching& s) { s.run(); });
}

SearchResult search(predict::Predictor& predictor, const SearchOptions& options, Progress& progress) {
  predict::Predictor* const one = &predictor;
  return search(std::span(&one, 1), options, progress);
}

SearchResult ranked(std::span<predict::Predictor* const> jobs, std::span<const plan::Plan> plans, const SearchOptions& options,
                    Progress& progress) {
  auto own = options;
  own.folds = false;
  return Choice(jobs, own, progress).run([&](Searching& s) { s.run(plans); });
}

plan::Plan with_best_values(predict::Predictor& predictor, const plan::Plan& plan) {
  SearchOptions options;
  options.fixed = plan;
  options.free = {}, options.top = 1;
  Progress silent;
  return search(predictor, options, silent).plans.front().answer.plan;
}

}  // namespace rehearsal::search
