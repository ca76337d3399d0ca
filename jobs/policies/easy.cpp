// EASY backfilling (D. Lifka, "The ANL/IBM SP Scheduling System", 1995; Mu'alem and Feitelson 2001): the job at the head gets devices
// reserved at the earliest time at which running jobs are expected to leave enough; those behind it may start now if they are expected to
// end by then, or need none of the reserved devices.

#include <algorithm>

#include "jobs/policies/policy_rows.hpp"

namespace rehearsal::jobs {
namespace {

struct Reservation {
  Seconds at;
  Devices devices;
};

Reservation reservation_for(const Schedule& schedule, int devices) {
  Cluster later = schedule.cluster();
  auto ending = schedule.running();
  std::ranges::stable_sort(ending, {}, [&](std::size_t n) { return schedule.expected_end(n); });
  for (const auto n : ending) {
    later.release(schedule.jobs()[n].devices);
    if (const auto room = later.room(devices)) return {std::max(schedule.now(), schedule.expected_end(n)), *room};
  }
  return {schedule.now(), {}};
}

class Easy final : public Policy {
 public:
  void decide(Schedule& schedule) override {
    const auto waiting = schedule.waiting();
    std::size_t head = 0;
    while (head < waiting.size() && schedule.start_where_room(waiting[head])) ++head;
    if (head == waiting.size()) return;
    const auto reserved = reservation_for(schedule, schedule.jobs()[waiting[head]].job->devices);
    for (std::size_t n = head + 1; n < waiting.size(); ++n) {
      const auto& state = schedule.jobs()[waiting[n]];
      const bool ends_in_time = schedule.now() + state.job->estimate.value_or(state.alone) <= reserved.at;
      schedule.start_where_room(waiting[n], ends_in_time ? Devices() : reserved.devices);
    }
  }
};

}  // namespace

PolicyRow easy() {
  return {
      .name = "easy",
      .description = "in order of arrival, but small jobs fill what the next large one does not delay for (EASY backfilling, Lifka 1995)",
      .make = [](const PolicySettings&) -> std::unique_ptr<Policy> { return std::make_unique<Easy>(); }};
}

}  // namespace rehearsal::jobs
