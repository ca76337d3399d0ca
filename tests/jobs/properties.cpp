// What holds of every schedule, on jobs at random.

#include <algorithm>
#include <map>
#include <set>

#include "base/random.hpp"
#include "jobs/schedule_picture.hpp"
#include "tests/jobs/cluster.hpp"

using namespace rehearsal;
using namespace rehearsal::jobs;

namespace {

constexpr int kNodes = 3;

std::vector<Job> jobs_at_random(std::uint64_t seed) {
  constexpr int kSizes[] = {1, 2, 2, 4, 6};
  std::vector<Job> jobs;
  double now = 0;
  for (std::uint64_t n = 0; n < 24; ++n) {
    now += std::floor(60 * random_uniform(seed, 0, n));
    const int devices = kSizes[static_cast<std::size_t>(5 * random_uniform(seed, 1, n))];
    auto job = job_of("j" + std::to_string(n), now, devices, std::floor(1 + 200 * random_uniform(seed, 2, n)));
    job.user = "u" + std::to_string(n % 3);
    job.restart = Seconds(2);
    job.least = 1;
    job.most = 6;
    const double alone = job.paces[devices].step.value() * devices;
    for (const int size : {1, 2, 4, 6}) job.paces[size] = {Seconds(alone / size * (1 + 0.05 * size)), Seconds(0), Watts(10), {}};
    jobs.push_back(job);
  }
  return jobs;
}

std::set<double> times_of(const ScheduleOutcome& o, const std::vector<Job>& jobs) {
  std::set<double> times;
  for (const auto& job : jobs) times.insert(job.arrival.value());
  for (const auto& stay : o.stays) times.insert({stay.from.value(), stay.to.value()});
  return times;
}

/// Jobs that hold devices at some time, and what is free.
struct Moment {
  std::set<std::size_t> running;
  Cluster cluster;
};
Moment at(const ScheduleOutcome& o, double time) {
  Moment m{{}, Cluster(cluster_of(kNodes))};
  for (const auto& stay : o.stays)
    if (stay.from.value() <= time && time < stay.to.value()) {
      m.running.insert(stay.job);
      m.cluster.take(stay.devices);  // says that nobody else has them
    }
  return m;
}

}  // namespace

TEST_CASE("no device is two jobs', every job is done, and none trains before it came") {
  for (const auto& policy : policy_table())
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      INFO(policy.name << " " << seed);
      const auto jobs = jobs_at_random(seed);
      const auto o = played(jobs, policy.name, kNodes, 50);
      for (const double time : times_of(o, jobs)) at(o, time);
      std::map<std::size_t, double> trained;
      for (const auto& stay : o.stays) {
        CHECK(stay.from >= jobs[stay.job].arrival);
        const int count = static_cast<int>(stay.devices.size());
        CHECK((count == jobs[stay.job].devices || policy.resizes));
        trained[stay.job] += (stay.to - stay.trains_from) / jobs[stay.job].pace(count).step;
      }
      for (std::size_t n = 0; n < jobs.size(); ++n) CHECK(trained[n] == Approx(jobs[n].steps).epsilon(1e-6));
      CHECK(o.utilisation <= 1 + 1e-9);
      CHECK(o.jain <= 1 + 1e-9);
    }
}

TEST_CASE("policies that say so leave no device idle on which a waiting job has room") {
  for (const auto& policy : policy_table()) {
    if (!policy.work_conserving) continue;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      INFO(policy.name << " " << seed);
      const auto jobs = jobs_at_random(seed);
      const auto o = played(jobs, policy.name, kNodes, 50);
      for (const double time : times_of(o, jobs)) {
        const auto moment = at(o, time);
        for (std::size_t n = 0; n < jobs.size(); ++n) {
          const bool waits = jobs[n].arrival.value() <= time && time < o.jobs[n].finish.value() && !moment.running.contains(n);
          if (waits) CHECK_FALSE(moment.cluster.room(policy.resizes ? 1 : jobs[n].devices));
        }
      }
    }
  }
}

TEST_CASE("fifo never overtakes") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto o = played(jobs_at_random(seed), "fifo", kNodes);
    CHECK(std::ranges::is_sorted(starts(o)));
  }
}

namespace {

/// EASY, watched: whoever is at the head starts no later than anybody ever promised it.
class WatchedEasy final : public Policy {
 public:
  WatchedEasy() : easy_(policy_named("easy").make({})) {}
  void decide(Schedule& schedule) override {
    easy_->decide(schedule);
    for (auto& [job, promised] : promises_)
      if (schedule.jobs()[job].phase == JobPhase::Waiting) CHECK(schedule.now().value() < promised + 1e-6);
    const auto waiting = schedule.waiting();
    if (waiting.empty()) return;
    Cluster later = schedule.cluster();
    auto running = schedule.running();
    std::ranges::sort(running, {}, [&](std::size_t n) { return schedule.expected_end(n); });
    for (const auto n : running) {
      later.release(schedule.jobs()[n].devices);
      if (!later.room(schedule.jobs()[waiting.front()].job->devices)) continue;
      const double at = schedule.expected_end(n).value();
      const auto known = promises_.try_emplace(waiting.front(), at).first;
      known->second = std::min(known->second, at);
      return;
    }
  }

 private:
  std::unique_ptr<Policy> easy_;
  std::map<std::size_t, double> promises_;
};

}  // namespace

TEST_CASE("easy never delays what the head of the queue was promised, and overtakes") {
  bool overtaken = false;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const PolicyRow watched{.name = "watched", .description = "", .make = [](const PolicySettings&) -> std::unique_ptr<Policy> {
                              return std::make_unique<WatchedEasy>();
                            }};
    const auto jobs = jobs_at_random(seed);
    const auto o = play(jobs, cluster_of(kNodes), watched, {});
    overtaken = overtaken || !std::ranges::is_sorted(starts(o));
  }
  CHECK(overtaken);
}

TEST_CASE("the same jobs give the same schedule, and a picture with every job in it") {
  const auto jobs = jobs_at_random(3);
  std::vector<ScheduleOutcome> outcomes;
  for (const auto& policy : policy_table()) outcomes.push_back(played(jobs, policy.name, kNodes, 50));
  CHECK(finishes(outcomes.front()) == finishes(played(jobs, "fifo", kNodes, 50)));
  const auto svg = to_svg(jobs, outcomes, cluster_of(kNodes));
  for (const auto& job : jobs) CHECK_THAT(svg, contains("<title>" + job.name + ":"));
  for (const auto& policy : policy_table()) CHECK_THAT(svg, contains(">" + std::string(policy.name) + "</text>"));
  CHECK(svg == to_svg(jobs, outcomes, cluster_of(kNodes)));
}
