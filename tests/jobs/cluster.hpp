#pragma once
// A cluster and jobs that are small enough to reckon by hand.

#include <string>
#include <vector>

#include "jobs/play.hpp"
#include "platforms/catalog.hpp"
#include "tests/catch.hpp"

namespace rehearsal::jobs {

/// Nodes of two devices, ten gigabits per second each.
inline platforms::Platform cluster_of(int nodes) {
  auto platform = platforms::with_nodes(platforms::load("xeon-2s-10gbe"), nodes);
  platform.restart_time = Seconds(0);
  return platform;
}

inline Job job_of(const std::string& name, double arrival, int devices, double steps, double step = 1) {
  Job job;
  job.name = name;
  job.user = name;
  job.arrival = Seconds(arrival);
  job.devices = job.least = job.most = devices;
  job.steps = steps;
  job.paces[devices] = {.step = Seconds(step), .on_network = Seconds(0), .power = Watts(0), .plan = {}};
  return job;
}

inline const PolicyRow& policy_named(std::string_view name) {
  for (const auto& row : policy_table())
    if (row.name == name) return row;
  FAIL("no policy " << name);
  return policy_table().front();
}

inline ScheduleOutcome played(const std::vector<Job>& jobs, std::string_view policy, int nodes = 2, double slice = 3600) {
  return play(jobs, cluster_of(nodes), policy_named(policy), {.slice = Seconds(slice)});
}

inline std::vector<double> starts(const ScheduleOutcome& o) {
  std::vector<double> all;
  for (const auto& j : o.jobs) all.push_back(j.start.value());
  return all;
}
inline std::vector<double> finishes(const ScheduleOutcome& o) {
  std::vector<double> all;
  for (const auto& j : o.jobs) all.push_back(j.finish.value());
  return all;
}

}  // namespace rehearsal::jobs
