// Elastic jobs (as Optimus, Peng et al., EuroSys 2018, and Pollux, Qiao et al., OSDI 2021, without their learning): whenever a job comes or
// ends, every job gets the least that it can train on, in order of arrival, then whoever gains most by its next size gets the devices for
// it. Gain is what a device adds to the rate of steps, over the rate on as many devices as the job asks for. Pace on every size is
// predicted.

#include <algorithm>
#include <map>

#include "jobs/policies/policy_rows.hpp"

namespace rehearsal::jobs {
namespace {

/// Devices by job; those without have to wait.
using Sizes = std::map<std::size_t, int>;

/// The next size that a job may grow to; 0: none.
int next_size(const Job& job, int size) {
  const auto next = job.paces.upper_bound(size);
  return next != job.paces.end() && next->first <= job.most ? next->first : 0;
}

int least_size(const Job& job) { return job.paces.lower_bound(job.least)->first; }

double gain(const Job& job, int from, int to) {
  const double asked = job.pace(job.devices).step.value();
  return (asked / job.pace(to).step.value() - asked / job.pace(from).step.value()) / (to - from);
}

Sizes sizes_for(const Schedule& schedule, const std::vector<std::size_t>& jobs) {
  Sizes sizes;
  int left = schedule.cluster().devices();
  for (const auto n : jobs) {
    const int least = least_size(*schedule.jobs()[n].job);
    if (least > left) continue;
    sizes[n] = least;
    left -= least;
  }
  while (true) {
    std::size_t best = 0;
    double most = 0;
    for (const auto& [n, size] : sizes) {
      const auto& job = *schedule.jobs()[n].job;
      const int next = next_size(job, size);
      if (next == 0 || next - size > left || gain(job, size, next) <= most) continue;
      most = gain(job, size, next);
      best = n;
    }
    if (most <= 0) return sizes;
    const int next = next_size(*schedule.jobs()[best].job, sizes[best]);
    left -= next - sizes[best];
    sizes[best] = next;
  }
}

class Elastic final : public Policy {
 public:
  void decide(Schedule& schedule) override {
    auto jobs = schedule.running();
    for (const auto n : schedule.waiting()) jobs.push_back(n);
    std::ranges::sort(jobs);
    const bool others = jobs != there_;  // else nothing that was decided is decided again: it would cost restarts
    there_ = jobs;
    auto sizes = sizes_for(schedule, jobs);
    for (const auto n : schedule.running())
      if (others && (!sizes.contains(n) || sizes[n] != static_cast<int>(schedule.jobs()[n].devices.size()))) schedule.stop(n);
    // Whole nodes first: small jobs find room in what is left.
    std::ranges::stable_sort(jobs, std::greater(), [&](std::size_t n) { return sizes.contains(n) ? sizes[n] : 0; });
    for (const auto n : jobs)
      if (schedule.jobs()[n].phase == JobPhase::Waiting) start_up_to(schedule, n, sizes.contains(n) ? sizes[n] : 0);
  }

 private:
  /// On its size, or the next smaller one that there is room for.
  static void start_up_to(Schedule& schedule, std::size_t n, int size) {
    const auto& job = *schedule.jobs()[n].job;
    for (auto pace = job.paces.upper_bound(std::max(size, least_size(job))); pace != job.paces.begin();) {
      --pace;
      if (pace->first < job.least) return;
      if (const auto room = schedule.cluster().room(pace->first)) return schedule.start(n, *room);
    }
  }

  std::vector<std::size_t> there_;  ///< unfinished jobs, when they were last given their sizes
};

}  // namespace

PolicyRow elastic() {
  return {.name = "elastic",
          .description = "everybody gets the least it can train on, then whoever gains most by more (as Optimus 2018 and Pollux 2021)",
          .work_conserving = true,
          .resizes = true,
          .make = [](const PolicySettings&) -> std::unique_ptr<Policy> { return std::make_unique<Elastic>(); }};
}

}  // namespace rehearsal::jobs
