#include "predict/frameworks/stage_clocks.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "costmodel/money.hpp"

namespace rehearsal::predict::frameworks {
namespace {

constexpr double kClockSteps = 100;  // clocks are set in whole per cents
constexpr int kTenths = 10;          // of the time that a stage waits: as much is tried to be used

/// Seconds that the passes of a micro-batch take on every stage, of replicas on several kinds of devices the longest.
std::vector<double> pass_seconds(const StagedStep& step) {
  std::vector<double> most(static_cast<std::size_t>(step.shape.stages), 0);
  for (const auto& lane : step.lanes) {
    std::vector<double> own(most.size(), 0);
    for (std::size_t c = 0; c < step.chunks.size(); ++c) {
      const auto stage = static_cast<std::size_t>(step.stage_of(c));
      for (const auto& piece : step.chunks[c]) {
        const auto& part = lane.timers[stage]->time_of(piece.part, piece.recompute);
        own[stage] += piece.count * (part.forward.queue.device + part.whole_backward.device);
      }
    }
    for (std::size_t s = 0; s < most.size(); ++s) most[s] = std::max(most[s], own[s]);
  }
  return most;
}

/// Clocks at which every stage uses so much of the time that it waits for the slowest one.
std::vector<double> clocks_using(double share, const std::vector<double>& seconds) {
  const double slowest = *std::ranges::max_element(seconds);
  std::vector<double> clocks;
  for (const double own : seconds) {
    const double clock = own > 0 ? own / (own + share * (slowest - own)) : 1;
    clocks.push_back(std::max(costmodel::kLeastClock, std::ceil(clock * kClockSteps) / kClockSteps));
  }
  return clocks;
}

/// Stages of one clock on equal devices share a timer.
class SlowerTimers {
 public:
  explicit SlowerTimers(std::vector<std::unique_ptr<const StepTimer>>& owned) : owned_(owned) {}
  const StepTimer* at(const StepTimer* timer, double clock) {
    if (clock >= 1) return timer;
    auto& known = known_[{timer, clock}];
    if (known == nullptr) known = owned_.emplace_back(std::make_unique<const StepTimer>(timer->at_clock(clock))).get();
    return known;
  }

 private:
  std::vector<std::unique_ptr<const StepTimer>>& owned_;
  std::map<std::pair<const StepTimer*, double>, const StepTimer*> known_;
};

double energy_of(const StagedStep& step, const StageClocks& clocks, double seconds, const costmodel::Constants& c) {
  const auto watts = stage_watts(step, clocks, seconds, c);
  const int ranks = step.job.plan.ranks();
  const double all = std::accumulate(watts.begin(), watts.end(), 0.0) * ranks / static_cast<double>(watts.size());
  return costmodel::job_cost(step.job.platform, ranks, Seconds(seconds), Watts(all) * Seconds(seconds)).energy.value();
}

}  // namespace

std::vector<double> stage_watts(const StagedStep& step, const StageClocks& clocks, double seconds, const costmodel::Constants& c) {
  const auto busy = active_seconds(step, step.lanes.front());
  const auto& groups = step.lanes.front().devices.groups;
  std::vector<double> watts;
  for (std::size_t s = 0; s < busy.size(); ++s) {
    watts.push_back(costmodel::power_at(step.job.device(groups[s]), busy[s].of(seconds), clocks.shares.empty() ? 1 : clocks.shares[s], c));
  }
  return watts;
}

StageClocks lower_clocks(StagedStep& step, const costmodel::Constants& c) {
  if (step.shape.stages < 2) return {};
  const auto seconds = pass_seconds(step);
  const auto full_lanes = step.lanes;
  const double full = closed_step(step).seconds, full_energy = energy_of(step, {}, full, c);
  StageClocks best;
  auto best_lanes = full_lanes;
  for (int tenths = kTenths; tenths > 0; --tenths) {
    StageClocks tried{clocks_using(static_cast<double>(tenths) / kTenths, seconds), {}, 0, 0};
    if (std::ranges::all_of(tried.shares, [](double clock) { return clock >= 1; })) break;
    SlowerTimers timers(tried.timers);
    for (std::size_t l = 0; l < step.lanes.size(); ++l)
      for (std::size_t s = 0; s < tried.shares.size(); ++s) step.lanes[l].timers[s] = timers.at(full_lanes[l].timers[s], tried.shares[s]);
    const double longer = closed_step(step).seconds;
    tried.slower = longer / full - 1;
    tried.saved = 1 - energy_of(step, tried, longer, c) / full_energy;
    if (tried.slower > kStepMayGrow || tried.saved <= best.saved) continue;
    best = std::move(tried);
    best_lanes = step.lanes;
  }
  step.lanes = std::move(best_lanes);
  return best;
}

}  // namespace rehearsal::predict::frameworks
