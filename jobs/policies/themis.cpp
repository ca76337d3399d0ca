// Themis (K. Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020), without its auctions: at the end of every
// lease devices go to those whose finish-time fairness would be worst, were they to get theirs from now on.

#include <algorithm>
#include <map>

#include "jobs/policies/sharing.hpp"

namespace rehearsal::jobs {
namespace {

class Themis final : public TimeSharing {
 public:
  using TimeSharing::TimeSharing;

 private:
  [[nodiscard]] std::vector<std::size_t> order(const Schedule& schedule) const override {
    auto jobs = schedule.running();
    for (const auto n : schedule.waiting()) jobs.push_back(n);
    std::ranges::sort(jobs);
    const auto there = static_cast<double>(jobs.size());
    std::map<std::size_t, double> fairness;
    for (const auto n : jobs) {
      const auto& state = schedule.jobs()[n];
      const Seconds so_far = schedule.now() - state.job->arrival;
      const double contenders = so_far.value() > 0 ? state.contenders / so_far.value() : there;
      const Seconds left = state.alone * (state.left / state.job->steps);
      fairness[n] = finish_time_fairness(state, so_far + left, contenders, schedule.cluster().devices());
    }
    std::ranges::stable_sort(jobs, std::greater(), [&](std::size_t n) { return fairness[n]; });
    return jobs;
  }
};

}  // namespace

PolicyRow themis() {
  return {
      .name = "themis",
      .description = "every lease anew, first to those whose finish-time fairness is worst (Themis, Mahajan et al. 2020, without auctions)",
      .work_conserving = true,
      .slices = true,
      .make = [](const PolicySettings& s) -> std::unique_ptr<Policy> { return std::make_unique<Themis>(s); }};
}

}  // namespace rehearsal::jobs
