#include "plan/lowering/lowering.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/join.hpp"
#include "plan/lowering/role_builder.hpp"
#include "plan/schedules/schedule.hpp"

namespace rehearsal::plan {
namespace {

/// A key of the plan that this version lowers only at its neutral value.
struct Unsupported {
  std::string_view key;
  bool (*used)(const Plan&);
};
constexpr Unsupported kUnsupported[] = {
    {"tp", [](const Plan& p) { return p.tp > 1; }},
    {"cp", [](const Plan& p) { return p.cp > 1; }},
    {"ep", [](const Plan& p) { return p.ep > 1; }},
    {"spatial",
     [](const Plan& p) {
       return p.spatial != std::array<int, 3>{1, 1, 1};
     }},
    {"interleave", [](const Plan& p) { return p.interleave > 1; }},
    {"zero", [](const Plan& p) { return p.zero > 0; }},
    {"recompute", [](const Plan& p) { return p.recompute != "none"; }},
    {"sequence_parallel", [](const Plan& p) { return p.sequence_parallel; }},
    {"offload", [](const Plan& p) { return p.offload != "none"; }},
    {"compression", [](const Plan& p) { return p.compression != "none"; }},
    {"bn", [](const Plan& p) { return p.bn != "batch"; }},
};

std::int64_t largest_replica(std::int64_t batch, int dp) { return (batch + dp - 1) / dp; }

int micro_batches_of(std::int64_t batch, const Plan& plan) {
  if (!plan.micro_batch) return 1;
  return static_cast<int>((largest_replica(batch, plan.dp) + *plan.micro_batch - 1) / *plan.micro_batch);
}

std::string sentence(const std::vector<Violation>& violations) {
  return joined(violations, "; ", [](const Violation& v) { return v.key + ": " + v.problem + " (" + v.remedy + ")"; });
}

std::size_t axis_named(const std::vector<MeshAxisInfo>& axes, std::string_view name) {
  const auto at = std::find_if(axes.begin(), axes.end(), [&](const MeshAxisInfo& a) { return a.name == name; });
  return static_cast<std::size_t>(at - axes.begin());
}

void warn_about_replicas(const Sharding& sharding, const graph::Graph& g, Program& program) {
  for (std::size_t a = 0; a < sharding.axes.size(); ++a) {
    const auto& use = sharding.use[a];
    if (use.flops_total <= 0 || use.flops_replicated < 0.01 * use.flops_total || use.replicas.empty()) continue;
    program.warnings.push_back(std::to_string(static_cast<int>(100 * use.flops_replicated / use.flops_total + 0.5)) +
                               " % of the FLOPs are computed by every coordinate of " + sharding.axes[a].name + ", for example by " +
                               g[use.replicas.front().node].name + ": " + use.replicas.front().reason);
  }
}

void build_roles(LoweringContext& context, Program& program) {
  std::map<std::pair<int, std::int64_t>, std::uint32_t> known;
  const auto data = context.data_mesh_axis;
  const auto pipeline = axis_named(program.axes, "pp");
  for (int rank = 0; rank < program.ranks; ++rank) {
    const int replica = coordinate(program, rank, data);
    const int stage = pipeline < program.axes.size() ? coordinate(program, rank, pipeline) : 0;
    // Replicas of the same size may still deal it differently to micro-batches only if the counts differ: they do not (block()).
    const auto own = block(program.batch, program.plan.dp, replica).count();
    const auto [at, fresh] = known.try_emplace({stage, own}, static_cast<std::uint32_t>(program.roles.size()));
    if (fresh) program.roles.push_back(RoleBuilder(context, stage, replica).build());
    program.role_of.push_back(at->second);
  }
}

}  // namespace

std::vector<MeshAxisInfo> mesh_of(const Plan& plan) {
  const std::map<std::string, int> sizes{{"dp", plan.dp}, {"pp", plan.pp}};
  std::vector<MeshAxisInfo> axes;
  int stride = 1;
  std::size_t start = 0;
  while (start <= plan.order.size()) {
    const auto dot = std::min(plan.order.find('.', start), plan.order.size());
    const auto name = plan.order.substr(start, dot - start);
    start = dot + 1;
    const auto size = sizes.find(name);
    if (size == sizes.end() || (size->second == 1 && name != "dp")) continue;
    axes.push_back({name, size->second, stride});
    stride *= size->second;
  }
  return axes;
}

std::vector<Violation> validate(const graph::TrainingGraph& training, const Plan& plan) {
  std::vector<Violation> violations;
  const auto& p = plan;
  for (const auto& row : kUnsupported)
    if (row.used(p)) violations.push_back({std::string(row.key), "is not lowered by this version", "leave it at its neutral value"});
  if (training.batch < p.dp)
    violations.push_back({"dp", std::to_string(p.dp) + " replicas of a batch of " + std::to_string(training.batch),
                          "use at most dp=" + std::to_string(training.batch) + " or a larger batch"});
  else if (p.micro_batch && *p.micro_batch > largest_replica(training.batch, p.dp))
    violations.push_back(
        {"micro_batch",
         std::to_string(*p.micro_batch) + " samples, but a replica has " + std::to_string(largest_replica(training.batch, p.dp)),
         "use at most that"});
  else if (training.batch / p.dp < micro_batches_of(training.batch, p))
    violations.push_back({"micro_batch", "the smallest replica has fewer samples than there are micro-batches",
                          "use a larger micro_batch or a batch that dp divides"});
  if (!p.searched.empty()) violations.push_back({p.searched.front(), "is \"auto\"", "run `rehearse search` first, or give a value"});
  return violations;
}

Program lower(const graph::TrainingGraph& training, const Plan& plan, const Backend& backend, const LoweringOptions& options) {
  if (const auto violations = validate(training, plan); !violations.empty()) throw Refusal("plan: " + sentence(violations));
  Program program;
  program.model_hash = training.graph.hash();
  program.plan = plan;
  program.dtype = training.graph[training.parameters.front().value].type.dtype;
  program.batch = training.batch;
  program.ranks = plan.ranks();
  program.micro_batches = micro_batches_of(training.batch, plan);
  program.axes = mesh_of(plan);

  std::vector<MeshAxis> axes;
  if (plan.dp > 1) axes.push_back({"dp", plan.dp, {"batch"}, false});
  if (program.micro_batches > 1) axes.push_back({"micro-batch", program.micro_batches, {"batch"}, true});
  const auto sharding = options.dims ? shard(training, options.dims, axes) : shard(training, axes);
  refuse_barriers(training.graph, sharding);
  warn_about_replicas(sharding, training.graph, program);
  const auto stages = assign_stages(training, plan, options.node_cost);

  LoweringContext context{training, plan, backend, options, sharding, stages, program, training.graph.consumers()};
  context.data_axis = plan.dp > 1 ? 0 : axes.size();
  context.time_axis = program.micro_batches > 1 ? axes.size() - 1 : axes.size();
  context.data_mesh_axis = axis_named(program.axes, "dp");
  build_roles(context, program);
  return program;
}

}  // namespace rehearsal::plan
