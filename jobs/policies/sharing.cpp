#include "jobs/policies/sharing.hpp"

#include <map>
#include <optional>

namespace rehearsal::jobs {

void TimeSharing::decide(Schedule& schedule) {
  if (schedule.now() >= next_) {
    give_anew(schedule);
    next_ = schedule.now() + slice_;
  }
  for (const auto job : order(schedule))
    if (schedule.jobs()[job].phase == JobPhase::Waiting) schedule.start_where_room(job);
}

std::optional<Seconds> TimeSharing::wake(const Schedule& schedule) const {
  // Nobody waits: whoever runs goes on until somebody comes.
  return schedule.waiting().empty() ? std::nullopt : std::optional(next_);
}

/// In order: who runs stays where it is, unless somebody before it could go nowhere else.
void TimeSharing::give_anew(Schedule& schedule) {
  Cluster planned = schedule.cluster();
  Devices held;
  for (const auto n : schedule.running()) {
    const auto& devices = schedule.jobs()[n].devices;
    planned.release(devices);
    held.insert(held.end(), devices.begin(), devices.end());
  }
  std::map<std::size_t, Devices> given;
  for (const auto n : order(schedule)) {
    const auto& state = schedule.jobs()[n];
    const bool stays = state.phase == JobPhase::Running && planned.is_free(state.devices);
    auto room = stays ? std::optional(state.devices) : planned.room(state.job->devices, held);
    if (!room) room = planned.room(state.job->devices);
    if (!room) continue;
    planned.take(*room);
    given[n] = std::move(*room);
  }
  for (const auto n : schedule.running())
    if (!given.contains(n) || given[n] != schedule.jobs()[n].devices) schedule.stop(n);
  for (const auto& [n, devices] : given)
    if (schedule.jobs()[n].phase == JobPhase::Waiting) schedule.start(n, devices);
}

}  // namespace rehearsal::jobs
