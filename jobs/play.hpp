#pragma once
// A schedule of jobs played event by event: arrivals, ends, slices. Between two events every job goes on at the pace that what it shares
// leaves it (jobs/contention.hpp).

#include <span>
#include <string>
#include <vector>

#include "jobs/policy.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::jobs {

/// A job had these devices from then to then; first it starts again where it has trained before.
struct Stay {
  std::size_t job = 0;
  Devices devices;
  Seconds from, trains_from, to;
};

struct JobOutcome {
  Seconds start, finish;
  Seconds waited;       ///< without devices, from its arrival on
  Seconds served;       ///< device-seconds
  double fairness = 1;  ///< finish-time fairness; of a job that the clock does not see: 1
  double slowed = 1;    ///< time that it held devices and trained, over that of as many steps with nobody beside it
  int restarts = 0;     ///< it lost its devices, or got others
};

/// What a policy makes of the jobs.
struct ScheduleOutcome {
  std::string policy;
  std::vector<JobOutcome> jobs;  ///< in the order of the jobs
  std::vector<Stay> stays;       ///< in order of time
  Seconds makespan;              ///< until the last job ends, from time 0
  Joules energy;                 ///< of the whole cluster until then, at the meter
  Dollars money;                 ///< the same: nodes are paid for whether they have work or not
  double utilisation = 0;        ///< share of the devices' time until then that jobs held
  double jain = 1;               ///< Jain's index of 1 / finish-time fairness: 1, all alike; 1 / n, one has it all
};

/// (sum x)² / (n sum x²) (R. Jain, D.-M. Chiu and W. Hawe, "A Quantitative Measure of Fairness and Discrimination", 1984).
[[nodiscard]] double jain_index(std::span<const double>);

/// Jobs in order of arrival, each with its paces. Throws Refusal naming the job that the cluster cannot have.
[[nodiscard]] ScheduleOutcome play(std::span<const Job>, const platforms::Platform&, const PolicyRow&, const PolicySettings&);

}  // namespace rehearsal::jobs
