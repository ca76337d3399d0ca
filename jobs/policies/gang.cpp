// Gang scheduling (J. Ousterhout, "Scheduling Techniques for Concurrent Systems", ICDCS 1982): all devices of a job at the same time, jobs
// in turn. Those go first who have had least of their devices' time since they came.

#include <algorithm>

#include "jobs/policies/sharing.hpp"

namespace rehearsal::jobs {
namespace {

class Gang final : public TimeSharing {
 public:
  using TimeSharing::TimeSharing;

 private:
  [[nodiscard]] std::vector<std::size_t> order(const Schedule& schedule) const override {
    auto jobs = schedule.running();
    for (const auto n : schedule.waiting()) jobs.push_back(n);
    std::ranges::sort(jobs);
    std::ranges::stable_sort(jobs, {}, [&](std::size_t n) { return schedule.jobs()[n].served.value() / schedule.jobs()[n].job->devices; });
    return jobs;
  }
};

}  // namespace

PolicyRow gang() {
  return {.name = "gang",
          .description = "in turn, a slice of time each, all devices of a job at once (Ousterhout 1982)",
          .work_conserving = true,
          .slices = true,
          .make = [](const PolicySettings& s) -> std::unique_ptr<Policy> { return std::make_unique<Gang>(s); }};
}

}  // namespace rehearsal::jobs
