// Fair share (J. Kay and P. Lauder, "A Fair Share Scheduler", Communications of the ACM 31, 1988): whoever has had least device-time for
// the weight of its user goes first. Running jobs are left alone; nothing had is forgotten.

#include <algorithm>
#include <map>
#include <string_view>

#include "jobs/policies/policy_rows.hpp"

namespace rehearsal::jobs {
namespace {

class FairSharePolicy final : public Policy {
 public:
  void decide(Schedule& schedule) override {
    std::map<std::string_view, double> had;
    for (const auto& state : schedule.jobs()) had[state.job->user] += state.served.value() / state.job->weight;
    auto waiting = schedule.waiting();
    while (!waiting.empty()) {
      const auto next = std::ranges::min_element(waiting, {}, [&](std::size_t n) { return had[schedule.jobs()[n].job->user]; });
      const auto& state = schedule.jobs()[*next];
      const auto& job = *state.job;
      // What has just been started counts, or one user would take all that is free.
      if (schedule.start_where_room(*next)) had[job.user] += job.devices * state.alone.value() / job.weight;
      waiting.erase(next);
    }
  }
};

}  // namespace

PolicyRow fair_share() {
  return {.name = "fair-share",
          .description = "first those of the user who has had least device-time for its weight (Kay and Lauder 1988); running jobs stay",
          .work_conserving = true,
          .make = [](const PolicySettings&) -> std::unique_ptr<Policy> { return std::make_unique<FairSharePolicy>(); }};
}

}  // namespace rehearsal::jobs
