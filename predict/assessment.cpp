#include "predict/assessment.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "predict/bottleneck.hpp"

namespace rehearsal::predict {
namespace {

double flops_of(const graph::Graph& g) {
  double flops = 0;
  for (const auto& node : g.nodes()) {
    const graph::NodeTypes types(g, node);
    flops += graph::work_of(graph::schema(node), types.view()).flops.value();
  }
  return flops;
}

std::optional<plan::CollectiveLinks> links_of(const Job& job, const plan::Plan& plan) {
  // Only ranks and strides matter for links: a program without roles has them.
  // Ranks on CPUs are started without knowing their network: what they would choose is what is predicted.
  if (plan.dp == 1 || platforms::device_of(job.platform, 0).kind == platforms::DeviceKind::Cpu) return std::nullopt;
  plan::Program mesh;
  mesh.ranks = plan.ranks();
  mesh.axes = plan::mesh_of(plan);
  for (std::size_t a = 0; a < mesh.axes.size(); ++a)
    if (mesh.axes[a].name == "dp") return collective_links(mesh, job.platform, platforms::Fabric(job.platform), job.model, {a, 0});
  return std::nullopt;
}

void set_memory(const Job& job, const plan::Program& program, Assessment& a) {
  const auto& profile = job.model.profile();
  double least_left = 0;
  for (int rank = 0; rank < program.ranks; ++rank) {
    const auto& role = program.role(rank);
    const double bytes = static_cast<double>(role.memory.arena_bytes) * profile.allocator_factor + profile.allocator_fixed.value();
    const double capacity = platforms::device_of(job.platform, rank).memory.value.value();
    if (rank > 0 && capacity - bytes >= least_left) continue;
    least_left = capacity - bytes;
    a.worst_rank = rank;
    a.memory_bytes = static_cast<std::int64_t>(bytes);
    a.memory_capacity = static_cast<std::int64_t>(capacity);
    a.host_bytes = role.memory.host_bytes;
    a.memory_by_category = role.memory.by_category;
  }
}

/// Offloading needs a way to the host, and room there.
void check_host_link(const Job& job, const plan::Plan& plan) {
  if (plan.offload == "none") return;
  const auto& device = platforms::device_of(job.platform, 0);
  if (device.kind == platforms::DeviceKind::Cpu || device.host_bandwidth) return;
  throw Refusal("plan: offload=" + plan.offload + ": platform " + job.platform.name + " does not say how quick the link of " + device.name +
                " to the host's memory is; add device.host_bandwidth (\"32 GB/s\") to its node");
}

void check_host_memory(const Job& job, const plan::Program& program) {
  if (program.plan.offload == "none") return;
  std::map<int, std::int64_t> used;
  for (int rank = 0; rank < program.ranks; ++rank) used[platforms::place(job.platform, rank).node] += program.role(rank).memory.host_bytes;
  for (const auto& [node, bytes] : used) {
    const auto room = platforms::node_of(job.platform, 0).host_memory.value;
    const Bytes wanted(static_cast<double>(bytes));
    if (wanted > room)
      throw Refusal("plan: offload=" + program.plan.offload + ": node " + std::to_string(node) + " would hold " + to_text(wanted) +
                    " in its host's memory, " + to_text(wanted - room) + " more than it has");
  }
}

}  // namespace

std::string bottleneck_of(const Breakdown& b) {
  const std::pair<const char*, double> parts[] = {
      {"compute", b.compute.value()},        {"exposed communication", b.exposed_communication.value()},
      {"pipeline bubble", b.bubble.value()}, {"recomputation", b.recompute.value()},
      {"optimizer", b.optimizer.value()},    {"input", b.io.value()}};
  return std::max_element(std::begin(parts), std::end(parts), [](const auto& x, const auto& y) { return x.second < y.second; })->first;
}

int threads_per_rank(const platforms::Platform& platform, int ranks) {
  const auto& node = platforms::node_of(platform, 0);
  if (node.device.kind != platforms::DeviceKind::Cpu) return 1;
  return std::max(1, node.host_cores / std::min(ranks, node.devices));
}

plan::Program lower_for(const Job& job, const plan::Plan& plan) {
  if (plan.ranks() > platforms::device_count(job.platform))
    throw Refusal("plan " + to_text(plan) + " needs " + std::to_string(plan.ranks()) + " devices, platform " + job.platform.name + " has " +
                  std::to_string(platforms::device_count(job.platform)) + "; use fewer ranks or --nodes N");
  check_host_link(job, plan);
  plan::LoweringOptions options;
  options.threads = threads_per_rank(job.platform, plan.ranks());
  options.bucket_bytes = static_cast<std::int64_t>(job.model.profile().bucket_bytes);
  options.links = links_of(job, plan);
  options.dims = job.dims;
  options.rules = job.rules;
  auto program = plan::lower(job.training, plan, job.backend, options);
  check_host_memory(job, program);
  return program;
}

Assessment assess(const Job& job, const plan::Program& program, StepEvaluator& evaluator, bool keep_timeline, StepCost* cost_out) {
  const auto costs = cost_of(program, job.training, job.model, threads_per_rank(job.platform, program.ranks));
  auto cost = evaluator.evaluate({program, costs, job.platform, job.model, keep_timeline});
  Assessment a;
  a.plan = program.plan;
  a.warnings = program.warnings;
  a.platform = job.platform.name;
  a.ranks = program.ranks;
  a.step = cost.step;
  a.step_seconds = cost.total.interval();
  a.samples_per_second = static_cast<double>(program.batch) / a.step.value();
  a.tokens_per_sample = static_cast<double>(tokens_per_sample(job.training.graph));
  a.breakdown = cost.breakdown;
  a.limiting_rank = cost.limiting_rank;
  a.imbalance = cost.imbalance;
  a.bottleneck = bottleneck_of(cost.breakdown);
  a.evidence = cost.total.evidence();
  a.events = cost.events;
  a.cost = costmodel::job_cost(job.platform, program.ranks, a.step, cost.devices_energy + cost.links_energy);
  double peak = 0;
  for (int rank = 0; rank < program.ranks; ++rank)
    peak += platforms::device_of(job.platform, rank).peak(job.peak_key).value_or(FlopsPerSecond(0)).value();
  a.mfu = peak > 0 ? flops_of(job.training.graph) / a.step.value() / peak : 0;
  set_memory(job, program, a);
  if (cost_out != nullptr) *cost_out = std::move(cost);
  return a;
}

Assessment assess(const Job& job, const plan::Plan& plan, StepEvaluator& evaluator) {
  return assess(job, lower_for(job, plan), evaluator, false, nullptr);
}

std::int64_t tokens_per_sample(const graph::Graph& model) {
  constexpr std::size_t kSamplesByPositions = 2;
  std::int64_t longest = 0;
  for (const auto input : model.inputs())
    if (const auto& type = model[input].type; type.shape.size() == kSamplesByPositions && is_integer(type.dtype))
      longest = std::max(longest, type.shape[1]);
  return longest;
}

std::string shortage(const Assessment& a) {
  return "needs " + to_text(Bytes(static_cast<double>(a.memory_bytes))) + " on rank " + std::to_string(a.worst_rank) + ", " +
         to_text(Bytes(static_cast<double>(a.memory_bytes - a.memory_capacity))) + " more than the " +
         to_text(Bytes(static_cast<double>(a.memory_capacity))) + " that its device has";
}

}  // namespace rehearsal::predict
