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
    // Those of several chunks cut the model otherwise; they are played when a plan names them.
    if (row.asynchronous || row.chunks != 1) continue;
    plan.schedule = std::string(row.name);
    plans.push_back(plan);
  }
}

/// Degrees of tensor parallelism: divisors that stay within a node, whose links its all-reduces in every layer need.
std::vector<int> tensor_degrees(const Job& job, const SearchOptions& options, int ranks) {
  if (!searches(options, "tp")) return {options.fixed.tp};
  std::vector<int> degrees;
  int in_node = 1;
  while (in_node < ranks && platforms::place(job.platform, in_node).node == 0) ++in_node;
  const int most = std::max(options.fixed.tp, in_node);
  for (int n = 1; n <= most; ++n)
    if (ranks % n == 0) degrees.push_back(n);
  return degrees;
}

/// The ways to deal `ranks` ranks to the axes; what is not searched keeps its degree.
std::vector<Plan> meshes(const Job& job, const SearchOptions& options, int ranks) {
  std::vector<Plan> plans;
  const auto& fixed = options.fixed;
  const int others = fixed.cp * fixed.ep * fixed.spatial[0] * fixed.spatial[1] * fixed.spatial[2];
  for (int pp = 1; pp <= ranks; ++pp) {
    if (ranks % pp != 0 || (!searches(options, "pp") && pp != fixed.pp)) continue;
    for (const int tp : tensor_degrees(job, options, ranks / pp)) {
      const int rest = tp * others;
      if (ranks / pp % rest != 0 || (!searches(options, "dp") && ranks / pp / rest != fixed.dp)) continue;
      Plan plan = fixed;
      plan.searched.clear();
      plan.dp = ranks / pp / rest;
      plan.tp = tp;
      plan.pp = pp;
      plans.push_back(std::move(plan));
    }
  }
  return plans;
}

/// What may be shared out or split besides: sharded updates, and activations between tensor-parallel operators.
std::vector<Plan> with_sharing(const SearchOptions& options, const Plan& plan, bool has_sequence) {
  std::vector<int> stages{options.fixed.zero};
  if (searches(options, "zero")) stages = plan.dp > 1 ? std::vector{0, 1, 3} : std::vector{0};
  std::vector<bool> sequence{options.fixed.sequence_parallel};
  if (searches(options, "sequence_parallel")) sequence = plan.tp > 1 && has_sequence ? std::vector{false, true} : std::vector{false};
  std::vector<Plan> plans;
  for (const int zero : stages)
    for (const bool split : sequence) {
      plans.push_back(plan);
      plans.back().zero = zero;
      plans.back().sequence_parallel = split;
    }
  return plans;
}

}  // namespace

std::vector<Plan> enumerate_plans(const Job& job, const SearchOptions& options) {
  std::vector<Plan> plans;
  if (!job.rules->use) job.rules->use = use_of_dimensions(job.training, *job.dims);
  const bool has_sequence = !job.rules->use->sequence.empty();
  for (int ranks : rank_counts(platforms::device_count(job.platform)))
    for (const auto& mesh : meshes(job, options, ranks))
      for (auto plan : with_sharing(options, mesh, has_sequence)) {
        if (!searches(options, "micro_batch")) {
          add_schedules(options, plan, plans);
          continue;
        }
        for (const auto& size : micro_batches(std::max<std::int64_t>(1, job.training.batch / plan.dp), plan.pp > 1)) {
          plan.micro_batch = size;
          add_schedules(options, plan, plans);
        }
      }
  return plans;
}

}  // namespace rehearsal::plan
