#include "jobs/job_arrivals.hpp"

#include <cmath>

#include "base/random.hpp"

namespace rehearsal::jobs {
namespace {

enum Stream : std::uint64_t { kBetween, kKind, kSteps };

const JobEntry& drawn_kind(const Arrivals& a, double uniform) {
  double all = 0;
  for (const auto& kind : a.of) all += kind.job.weight;
  double left = uniform * all;
  for (const auto& kind : a.of)
    if ((left -= kind.job.weight) < 0) return kind;
  return a.of.back();
}

}  // namespace

std::vector<JobEntry> drawn(const Arrivals& a) {
  std::vector<JobEntry> jobs;
  Seconds now;
  for (int n = 0; n < a.count; ++n) {
    const auto index = static_cast<std::uint64_t>(n);
    now += a.every * -std::log1p(-random_uniform(a.seed, kBetween, index));
    auto entry = drawn_kind(a, random_uniform(a.seed, kKind, index));
    const double factor = std::exp(a.spread * random_normal(a.seed, kSteps, index) - a.spread * a.spread / 2);
    entry.job.name += "-" + std::to_string(n + 1);
    entry.job.arrival = now;
    entry.job.steps = std::max(1.0, std::round(entry.job.steps * factor));
    entry.job.weight = 1;
    if (entry.training && entry.training->tokens) *entry.training->tokens *= factor;
    jobs.push_back(std::move(entry));
  }
  return jobs;
}

}  // namespace rehearsal::jobs
