#include "predict/stragglers.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "predict/plan_input.hpp"
#include "predict/predictor_around.hpp"

namespace rehearsal::predict {
namespace {

double normal_share_below(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

/// The largest of so many independent lognormal numbers of mean 1, by its quantiles.
class Largest {
 public:
  Largest(double spread, int of) : spread_(spread) {
    const double variance = std::log1p(spread * spread);
    for (int n = 0; n < kCells; ++n) {
      const double share = (n + 0.5) / kCells;  // that all of them are below
      values_.push_back(std::exp(std::sqrt(variance) * quantile(std::pow(share, 1.0 / of)) - variance / 2));
    }
    mean_ = std::accumulate(values_.begin(), values_.end(), 0.0) / kCells;
    double squares = 0;
    for (const double v : values_) squares += (v - mean_) * (v - mean_);
    deviation_ = std::sqrt(squares / kCells);
  }
  [[nodiscard]] double mean() const { return mean_; }
  [[nodiscard]] double deviation() const { return deviation_; }
  [[nodiscard]] double at(double share) const { return values_[std::min(static_cast<std::size_t>(share * kCells), values_.size() - 1)]; }

 private:
  static constexpr int kCells = 4096;
  static double quantile(double share) {
    double low = -9, high = 9;
    constexpr int kHalvings = 50;
    for (int n = 0; n < kHalvings; ++n) (normal_share_below((low + high) / 2) < share ? low : high) = (low + high) / 2;
    return (low + high) / 2;
  }

  double spread_, mean_ = 1, deviation_ = 0;
  std::vector<double> values_;
};

/// Replicas that meet again and again, from one end of their steps to the next.
class Meetings {
 public:
  Meetings(const plan::Plan& plan, const Jitter& jitter)
      : plan_(plan), replicas_(static_cast<std::size_t>(plan.dp)), step_(jitter.spread, plan.ranks() / plan.dp) {}

  /// Mean time of a step over that of a rank of mean speed.
  [[nodiscard]] double pace() {
    const auto meetings = std::clamp<std::size_t>(kDraws / replicas_, kFewest, kMost);
    std::vector<std::vector<double>> arrived;  // [meeting][replica]: at it
    std::vector<double> left(replicas_, 0);
    double behind_warm_up = 0;
    for (std::size_t n = 0; n < meetings; ++n) {
      arrived.emplace_back(replicas_);
      for (std::size_t r = 0; r < replicas_; ++r) arrived[n][r] = left[r] + time_to_meeting(r, n);
      for (std::size_t r = 0; r < replicas_; ++r) left[r] = std::max(arrived[n][r], awaited(arrived, r));
      if (n + 1 == meetings / 4) behind_warm_up = mean_of(left);
    }
    return (mean_of(left) - behind_warm_up) / static_cast<double>(meetings - meetings / 4) / static_cast<double>(plan_.local_steps);
  }

 private:
  static constexpr std::size_t kDraws = 1'000'000, kFewest = 40, kMost = 4000;

  [[nodiscard]] double time_to_meeting(std::size_t replica, std::size_t meeting) const {
    constexpr std::int64_t kFew = 8;  // of more steps the sum is as good as normal
    const auto steps = plan_.local_steps;
    if (steps > kFew)
      return static_cast<double>(steps) * step_.mean() +
             std::sqrt(static_cast<double>(steps)) * step_.deviation() * random_normal(kSeed, replica, meeting);
    double time = 0;
    for (std::int64_t s = 0; s < steps; ++s) {
      const auto number = meeting * static_cast<std::size_t>(steps) + static_cast<std::size_t>(s);
      time += step_.at(random_uniform(kSeed, replica, number));
    }
    return time;
  }

  /// When the last of those whom a replica waits for at the newest meeting has come.
  [[nodiscard]] double awaited(const std::vector<std::vector<double>>& arrived, std::size_t replica) const {
    const auto meeting = static_cast<std::int64_t>(arrived.size()) - 1;
    if (plan_.outer.rule == plan::OuterRule::Gossip)
      return std::max(arrived.back()[(replica + 1) % replicas_], arrived.back()[(replica + replicas_ - 1) % replicas_]);
    const auto bound = meeting - plan_.staleness.value_or(0);
    return bound < 0 ? 0 : std::ranges::max(arrived[static_cast<std::size_t>(bound)]);
  }

  static constexpr std::uint64_t kSeed = 20261127;
  const plan::Plan& plan_;
  std::size_t replicas_;
  Largest step_;
};

class JitterPredictor final : public PredictorAround {
 public:
  JitterPredictor(std::unique_ptr<Predictor> owned, const Jitter& jitter)
      : PredictorAround(*owned), owned_(std::move(owned)), jitter_(jitter) {}

  [[nodiscard]] Assessment closed(const plan::Plan& plan) override { return waiting(inner().closed(plan)); }
  [[nodiscard]] Assessment played(const PlayableStep& step, StepEvaluator& evaluator, Timeline* timeline) override {
    return waiting(inner().played(step, evaluator, timeline));
  }

 private:
  [[nodiscard]] Assessment waiting(Assessment a) {
    const auto& p = a.plan;
    const auto [known, fresh] =
        known_.try_emplace({p.dp, p.ranks(), p.local_steps, p.staleness.value_or(-1), p.outer.rule == plan::OuterRule::Gossip}, 0);
    if (fresh) known->second = waiting_for_stragglers(p, jitter_);
    a.stragglers = known->second * (a.breakdown.compute + a.breakdown.recompute + a.breakdown.optimizer);
    add_waiting(a, *a.stragglers, platform_for(p));
    return a;
  }

  std::unique_ptr<Predictor> owned_;
  Jitter jitter_;
  std::map<std::tuple<int, int, std::int64_t, std::int64_t, bool>, double> known_;
};

}  // namespace

double waiting_for_stragglers(const plan::Plan& plan, const Jitter& jitter) {
  if (jitter.spread == 0) return 0;
  if (plan.local_steps == 0 || plan.dp == 1) return Largest(jitter.spread, plan.ranks()).mean() - 1;
  return std::max(0.0, Meetings(plan, jitter).pace() - 1);
}

std::unique_ptr<Predictor> with_jitter(std::unique_ptr<Predictor> inner, const Jitter& jitter) {
  constexpr double kMost = 5;
  if (!(jitter.spread >= 0 && jitter.spread <= kMost))
    throw BadInput("--jitter", "must be a share of the time that a rank computes in a step, from 0 to 5, as in 0.1");
  return std::make_unique<JitterPredictor>(std::move(inner), jitter);
}

}  // namespace rehearsal::predict
