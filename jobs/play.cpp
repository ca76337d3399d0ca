#include "jobs/play.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "jobs/contention.hpp"
#include "platforms/usual_figures.hpp"

namespace rehearsal::jobs {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Of a step: what is left of a job that has ended.
constexpr double kEnded = 1e-9;
constexpr std::size_t kMostEvents = 2'000'000;  ///< a year of slices of a minute is a quarter of that

class Player final : public Schedule {
 public:
  Player(std::span<const Job> jobs, const platforms::Platform& platform)
      : platform_(platform),
        cluster_(platform),
        contention_(platform),
        outcomes_(jobs.size()),
        trained_alone_(jobs.size()),
        trained_(jobs.size()) {
    for (const auto& job : jobs) {
      JobState state;
      state.job = &job;
      state.left = job.steps;
      require_possible(job);
      state.alone = contention_.alone(job);
      states_.push_back(state);
    }
  }

  [[nodiscard]] Seconds now() const override { return now_; }
  [[nodiscard]] const Cluster& cluster() const override { return cluster_; }
  [[nodiscard]] std::span<const JobState> jobs() const override { return states_; }

  [[nodiscard]] Seconds expected_end(std::size_t n) const override {
    const auto& s = states_[n];
    if (s.job->estimate) return std::max(now_, s.first_start + *s.job->estimate);
    return std::max(now_, s.trains_from) + s.step * s.left;
  }

  void start(std::size_t n, const Devices& devices) override {
    auto& s = states_[n];
    ensure(s.phase == JobPhase::Waiting, "a job that is started waits");
    cluster_.take(devices);
    s.phase = JobPhase::Running;
    s.devices = devices;
    s.since = now_;
    s.trains_from = now_ + (s.begun ? restart_of(*s.job, static_cast<int>(devices.size())) : Seconds(0));
    s.step = contention_.step_alone(*s.job, static_cast<int>(devices.size()));
    if (!s.begun)
      s.first_start = now_;
    else
      ++s.restarts;
    s.begun = true;
  }

  void stop(std::size_t n) override {
    leave(n);
    states_[n].phase = JobPhase::Waiting;
  }

  ScheduleOutcome play(Policy& policy, bool slices) {
    for (std::size_t events = 0;; ++events) {
      if (events == kMostEvents) refuse_endless(slices);
      take_arrivals();
      end_jobs();
      policy.decide(*this);
      set_paces();
      if (std::ranges::all_of(states_, [](const JobState& s) { return s.phase == JobPhase::Done; })) return outcome();
      const auto wake = policy.wake(*this);
      const double next = std::min(next_event(), wake ? std::max(wake->value(), now_.value()) : kInfinity);
      ensure(std::isfinite(next), "waiting jobs get devices once everybody else has ended");
      advance(Seconds(next));
    }
  }

 private:
  /// Jobs that lose their devices before they have started again get nothing done.
  [[noreturn]] void refuse_endless(bool slices) const {
    double slowest = 0;
    for (const auto& s : states_)
      if (s.begun) slowest = std::max(slowest, restart_of(*s.job, s.job->devices).value());
    const auto so_far = "the schedule has not ended at " + to_text(now_) + ", after " + std::to_string(kMostEvents) + " events";
    if (!slices) throw Refusal(so_far + "; play fewer jobs, or a shorter part of their time");
    throw Refusal(so_far + ": devices are given anew so often that jobs get little done; a job takes up to " + to_text(Seconds(slowest)) +
                  " to start again, and --slice should be many times that");
  }

  void require_possible(const Job& job) const {
    for (const auto& [devices, pace] : job.paces)
      if ((devices == job.devices || (devices >= job.least && devices <= job.most)) && !cluster_.can_have(devices))
        throw Refusal("job " + job.name + " asks for " + std::to_string(devices) + " devices; the cluster has " +
                      std::to_string(cluster_.nodes()) + " nodes of " + std::to_string(cluster_.per_node()) +
                      ", of which a job gets a part of one, or whole ones");
    if (job.checkpoint_every && !contention_.knows_storage())
      throw Refusal("job " + job.name + ": checkpoint_every asks how quick storage is, and platform " + platform_.name +
                    " says no storage_bandwidth of its nodes");
  }

  /// Writing what it was, starting, and reading it.
  [[nodiscard]] Seconds restart_of(const Job& job, int devices) const {
    const Seconds starting = job.restart.value_or(platforms::restart_time_of(platform_).value);
    return starting + contention_.checkpoint_time(job, devices) * 2;
  }

  void leave(std::size_t n) {
    auto& s = states_[n];
    cluster_.release(s.devices);
    if (now_ > s.since) stays_.push_back({n, s.devices, s.since, std::min(s.trains_from, now_), now_});
    s.devices.clear();
  }

  void take_arrivals() {
    for (auto& s : states_)
      if (s.phase == JobPhase::Coming && s.job->arrival <= now_) s.phase = JobPhase::Waiting;
  }

  /// Nothing is left, or so little that the clock cannot show it: after a year it has seconds to eight digits, and would stand still.
  [[nodiscard]] bool has_ended(const JobState& s) const {
    if (s.left <= kEnded * std::max(1.0, s.job->steps)) return true;
    return s.trains_from <= now_ && now_ + s.step * s.left == now_;
  }

  void end_jobs() {
    for (std::size_t n = 0; n < states_.size(); ++n) {
      auto& s = states_[n];
      if (s.phase != JobPhase::Running || !has_ended(s)) continue;
      leave(n);
      s.phase = JobPhase::Done;
      s.finish = now_;
    }
  }

  void set_paces() {
    std::vector<Placed> placed;
    std::vector<std::size_t> whose;
    for (const auto n : running()) {
      if (states_[n].trains_from > now_) continue;  // it starts: nothing is sent
      placed.push_back({states_[n].job, states_[n].devices});
      whose.push_back(n);
    }
    const auto steps = contention_.steps(placed);
    for (std::size_t p = 0; p < whose.size(); ++p) states_[whose[p]].step = steps[p];
  }

  [[nodiscard]] double next_event() const {
    double next = kInfinity;
    for (const auto& s : states_) {
      if (s.phase == JobPhase::Coming) next = std::min(next, s.job->arrival.value());
      if (s.phase != JobPhase::Running) continue;
      next = std::min(next, s.trains_from > now_ ? s.trains_from.value() : (now_ + s.step * s.left).value());
    }
    return next;
  }

  void advance(Seconds to) {
    const Seconds past = to - now_;
    const auto there = static_cast<double>(
        std::ranges::count_if(states_, [](const JobState& s) { return s.phase == JobPhase::Waiting || s.phase == JobPhase::Running; }));
    double drawn = 0;
    int held = 0;
    for (std::size_t n = 0; n < states_.size(); ++n) {
      auto& s = states_[n];
      if (s.phase == JobPhase::Coming || s.phase == JobPhase::Done) continue;
      s.contenders += there * past.value();
      if (s.phase != JobPhase::Running) continue;
      const int count = static_cast<int>(s.devices.size());
      const auto& pace = s.job->pace(count);
      s.served += past * count;
      held += count;
      drawn += pace.power->value();
      if (s.trains_from > now_) continue;
      const double done = std::min(s.left, past / s.step);
      s.left -= done;
      trained_[n] += past;
      trained_alone_[n] += contention_.step_alone(*s.job, count) * done;
    }
    held_ += held * past.value();
    const auto& node = platform_.nodes.front();
    drawn += (cluster_.devices() - held) * node.device.idle_power.value.value() + cluster_.nodes() * node.host_power.value.value();
    energy_ += Joules(drawn * past.value() * platform_.pue.value);
    now_ = to;
  }

  ScheduleOutcome outcome() {
    ScheduleOutcome o;
    o.makespan = now_;
    o.energy = energy_;
    const Dollars rent = platform_.nodes.front().price.value * now_ * cluster_.nodes();
    o.money = rent.value() > 0 ? rent : Dollars(energy_.value() * platform_.electricity_price.value.value());
    o.utilisation = now_.value() > 0 ? held_ / (cluster_.devices() * now_.value()) : 0;
    std::vector<double> shares;
    for (std::size_t n = 0; n < states_.size(); ++n) {
      const auto& s = states_[n];
      const Seconds taken = s.finish - s.job->arrival;
      auto& j = outcomes_[n];
      j = {.start = s.first_start, .finish = s.finish, .waited = taken - held_by(n), .served = s.served, .restarts = s.restarts};
      if (taken.value() > 0) j.fairness = finish_time_fairness(s, taken, s.contenders / taken.value(), cluster_.devices());
      j.slowed = trained_alone_[n].value() > 0 ? trained_[n] / trained_alone_[n] : 1;
      shares.push_back(1 / j.fairness);
    }
    o.jain = jain_index(shares);
    o.jobs = std::move(outcomes_);
    std::ranges::stable_sort(stays_, {}, &Stay::from);
    o.stays = std::move(stays_);
    return o;
  }

  [[nodiscard]] Seconds held_by(std::size_t n) const {
    Seconds held;
    for (const auto& stay : stays_)
      if (stay.job == n) held += stay.to - stay.from;
    return held;
  }

  const platforms::Platform& platform_;
  Cluster cluster_;
  Contention contention_;
  std::vector<JobState> states_;
  std::vector<JobOutcome> outcomes_;
  std::vector<Seconds> trained_alone_, trained_;
  std::vector<Stay> stays_;
  Seconds now_;
  Joules energy_;
  double held_ = 0;  ///< device-seconds
};

}  // namespace

double jain_index(std::span<const double> values) {
  double sum = 0, squares = 0;
  for (const double x : values) sum += x, squares += x * x;
  return squares > 0 ? sum * sum / (static_cast<double>(values.size()) * squares) : 1;
}

ScheduleOutcome play(std::span<const Job> jobs, const platforms::Platform& platform, const PolicyRow& row, const PolicySettings& settings) {
  std::vector<Job> known(jobs.begin(), jobs.end());
  for (auto& job : known)
    for (auto& [devices, pace] : job.paces)
      if (!pace.power) pace.power = platform.nodes.front().device.busy_power.value * devices;
  Player player(known, platform);
  const auto policy = row.make(settings);
  auto outcome = player.play(*policy, row.slices);
  outcome.policy = std::string(row.name);
  return outcome;
}

}  // namespace rehearsal::jobs
