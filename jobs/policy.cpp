#include "jobs/policy.hpp"

#include <algorithm>

namespace rehearsal::jobs {

std::vector<std::size_t> Schedule::in_phase(JobPhase phase) const {
  std::vector<std::size_t> found;
  for (std::size_t n = 0; n < jobs().size(); ++n)
    if (jobs()[n].phase == phase) found.push_back(n);
  return found;
}

bool Schedule::start_where_room(std::size_t job, const Devices& reserved) {
  const auto room = cluster().room(jobs()[job].job->devices, reserved);
  if (room) start(job, *room);
  return room.has_value();
}

double finish_time_fairness(const JobState& state, Seconds taken, double contenders, int cluster_devices) {
  const double crowded = std::max(1.0, state.job->devices * contenders / cluster_devices);
  return taken / (state.alone * crowded);
}

}  // namespace rehearsal::jobs
