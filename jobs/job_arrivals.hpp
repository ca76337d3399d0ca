#pragma once
// Jobs that come at random: a Poisson process of several kinds. Published traces (Philly, Helios, Alibaba) are heavier in their tails; a
// spread of 1.5 to 2 around the steps of a kind comes near their durations.

#include <cstdint>
#include <vector>

#include "jobs/job.hpp"

namespace rehearsal::jobs {

struct Arrivals {
  int count = 1;
  Seconds every;
  std::uint64_t seed = 0;
  double spread = 0;  ///< standard deviation of ln(steps)
  std::vector<JobEntry> of;
};

/// Named "KIND-1", "KIND-2", ... by their number among all. Times between two are -every · ln(1 - u), kinds are drawn by their weights,
/// steps are those of the kind times exp(spread · z - spread² / 2), whose mean is 1. The same seed gives the same jobs.
[[nodiscard]] std::vector<JobEntry> drawn(const Arrivals&);

}  // namespace rehearsal::jobs
