#include <algorithm>
#include <set>

#include "plan/schedules/schedule.hpp"
#include "plan/search/search.hpp"

namespace rehearsal::plan {
namespace {

bool searches(const SearchOptions& options, std::string_view key) {
  return std::find(options.free.begin(), options.free.end(), key) != options.free.end();
}

/// Numbers of ranks worth trying: powers of two, divisors of all devices, and all devices.
std::vector<int> rank_counts(int devices) {
  std::set<int> counts{devices};
  for (int n = 1; n <= devices; n *= 2) counts.insert(n);
  for (int n = 1; n <= devices; ++n)
    if (devices % n == 0) counts.insert(n);
  return {counts.rbegin(), counts.rend()};
}

std::vector<std::optional<std::int64_t>> micro_batches(std::int64_t per_replica, bool pipeline) {
  std::vector<std::optional<std::int64_t>> sizes;
  if (!pipeline) sizes.push_back(std::nullopt);
  for (std::int64_t b = pipeline ? per_replica : per_replica / 2; b >= 1; b /= 2) sizes.emplace_back(b);
  return sizes;
}

void add_schedules(const SearchOptions& options, Plan plan, std::vector<Plan>& plans) {
  if (plan.pp == 1 || !searches(options, "schedule")) {
    plans.push_back(std::move(plan));
    return;
  }
  for (const auto& row : schedule_table()) {
    plan.schedule = std::string(row.name);
    plans.push_back(plan);
  }
}

}  // namespace

std::vector<Plan> enumerate_plans(const Job& job, const SearchOptions& options) {
  std::vector<Plan> plans;
  const auto batch = job.training.batch;
  for (int ranks : rank_counts(platforms::device_count(job.platform)))
    for (int pp = 1; pp <= ranks; ++pp) {
      if (ranks % pp != 0) continue;
      Plan plan = options.fixed;
      plan.searched.clear();
      plan.dp = ranks / pp;
      plan.pp = pp;
      if (!searches(options, "dp") && plan.dp != options.fixed.dp) continue;
      if (!searches(options, "pp") && plan.pp != options.fixed.pp) continue;
      if (!searches(options, "micro_batch")) {
        add_schedules(options, plan, plans);
        continue;
      }
      for (const auto& size : micro_batches(std::max<std::int64_t>(1, batch / plan.dp), pp > 1)) {
        plan.micro_batch = size;
        add_schedules(options, plan, plans);
      }
    }
  return plans;
}

}  // namespace rehearsal::plan
