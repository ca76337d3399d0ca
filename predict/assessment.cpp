#include "predict/assessment.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/join.hpp"
#include "costmodel/constants.hpp"
#include "costmodel/framework.hpp"
#include "plan/batch_shares.hpp"
#include "plan/collectives/meetings.hpp"
#include "predict/bottleneck.hpp"
#include "predict/checkpoint_size.hpp"
#include "predict/group_links.hpp"
#include "predict/memory_risk.hpp"
#include "predict/stage_speeds.hpp"

namespace rehearsal::predict {
namespace {

/// What a rank holds beside its arena, which itself is exact.
struct BesideArena {
  double most = 0;  ///< bytes, of 90 % of ranks
  std::string what;
};

BesideArena beside_arena(const platforms::Device& device, int ranks) {
  // Resident beyond the arena in runs of tens of models on one and two ranks: 13 to 30 MB, 45 with hundreds of different kernels
  // (docs/cli-answers.md).
  constexpr double kProcess = 45e6;
  constexpr double kGibi = 1024.0 * 1024.0 * 1024.0;
  const std::string with_messages = ranks > 1 ? " and buffers of messages" : "";
  if (device.kind == platforms::DeviceKind::Cpu)
    return {kProcess,
            "the arena is laid out to the byte; program, libraries" + with_messages + " held 13 to 45 MB more where it was measured"};
  return {costmodel::published_constants().values[costmodel::Coefficient::MemoryReservePytorch] * kGibi,
          "the arena is laid out to the byte; the driver's context, workspaces of libraries" + with_messages +
              " are taken to need no more than they do under PyTorch"};
}

void set_memory(const Workload& job, const plan::Program& program, Assessment& a) {
  double least_left = 0;
  for (int rank = 0; rank < program.ranks; ++rank) {
    const auto& role = program.role(rank);
    const auto center = plan::center_bytes(program, role);
    const auto& device = platforms::device_of(job.platform, rank);
    // The memory of a processor is its host's.
    const std::int64_t moved = device.kind == platforms::DeviceKind::Cpu ? role.memory.host_bytes : 0,
                       all = role.memory.arena_bytes + center + moved;
    const auto bytes = static_cast<double>(all);
    const double capacity = device.memory.value.value();
    if (rank > 0 && capacity - bytes >= least_left) continue;
    least_left = capacity - bytes;
    a.worst_rank = rank;
    a.memory_bytes = all;
    a.memory_capacity = static_cast<std::int64_t>(capacity);
    a.host_bytes = role.memory.host_bytes;
    a.memory_by_category = role.memory.by_category;
    a.memory_by_category[static_cast<std::size_t>(plan::MemoryCategory::Parameters)] += center;
    const bool states = program.plan.offload == plan::Offload::Optimizer;
    a.memory_by_category[static_cast<std::size_t>(states ? plan::MemoryCategory::OptimizerState : plan::MemoryCategory::Activations)] +=
        moved;
  }
  auto beside = beside_arena(platforms::device_of(job.platform, a.worst_rank), program.ranks);
  a.memory_low = a.memory_bytes;
  a.memory_high = a.memory_bytes + static_cast<std::int64_t>(beside.most);
  a.memory_rests_on = std::move(beside.what);
}

/// Offloading needs a way to the host, and room there.
void check_host_link(const Workload& job, const plan::Plan& plan) {
  if (plan.offload == plan::Offload::None) return;
  const auto& device = platforms::device_of(job.platform, 0);
  if (device.kind == platforms::DeviceKind::Cpu || device.host_bandwidth) return;
  throw Refusal("plan: offload=" + std::string(name(plan.offload)) + ": platform " + job.platform.name +
                " does not say how quick the link of " + device.name +
                " to the host's memory is; add device.host_bandwidth (\"32 GB/s\") to its node");
}

/// Ranks on GPUs compress in the host's memory, and how long that takes there nobody has measured.
void check_compressor(const Workload& job, const plan::Plan& plan) {
  if (!plan.compression.of_sums()) return;
  for (const auto& nodes : job.platform.nodes)
    if (nodes.device.kind != platforms::DeviceKind::Cpu)
      throw Refusal("plan: compression=" + to_text(plan.compression) + ": compressors of gradients are predicted on processors, and " +
                    nodes.device.name + " of platform " + job.platform.name + " is none; use compression=bf16, f16 or none");
}

void check_host_memory(const Workload& job, const plan::Program& program) {
  if (program.plan.offload == plan::Offload::None) return;
  std::map<int, std::int64_t> used;
  for (int rank = 0; rank < program.ranks; ++rank) used[platforms::place(job.platform, rank).node] += program.role(rank).memory.host_bytes;
  for (const auto& [node, bytes] : used) {
    const auto room = platforms::node_of(job.platform, 0).host_memory.value;
    const Bytes wanted(static_cast<double>(bytes));
    if (wanted > room)
      throw Refusal("plan: offload=" + std::string(name(program.plan.offload)) + ": node " + std::to_string(node) + " would hold " +
                    to_text(wanted) + " in its host's memory, " + to_text(wanted - room) + " more than it has");
  }
}

int group_of(const Workload& job, int rank) { return platforms::place(job.platform, rank).group; }

std::vector<int> first_on_each_kind_of_node(const Workload& job, int ranks) {
  std::vector<int> first;
  std::set<int> known;
  for (int rank = 0; rank < ranks; ++rank)
    if (known.insert(group_of(job, rank)).second) first.push_back(rank);
  return first;
}

/// Are the first `ranks` devices of several kinds?
bool differ(const Workload& job, int ranks) { return !job.models.empty() && first_on_each_kind_of_node(job, ranks).size() > 1; }

std::size_t replicas_axis(const plan::Program& program) {
  return static_cast<std::size_t>(std::ranges::find(program.axes, "dp", &plan::MeshAxisInfo::name) - program.axes.begin());
}

/// What does not depend on where ranks are.
plan::LoweringOptions options_anywhere(const Workload& job, int threads) {
  plan::LoweringOptions options;
  options.threads = threads;
  options.bucket_bytes = static_cast<std::int64_t>(costmodel::own_framework().bucket_bytes);
  options.dims = job.dims;
  options.rules = job.rules;
  return options;
}

plan::Program lowered(const Workload& job, const plan::Plan& plan, const PassListener& after_pass = {}) {
  auto options = options_anywhere(job, threads_per_rank(job.platform, plan.ranks()));
  const platforms::Fabric fabric(job.platform);
  const auto members = first_on_each_kind_of_node(job, plan.ranks());
  options.links = [&](const plan::Program& mesh, std::size_t axis) {
    GroupLinks links(mesh, job.platform, fabric, job.model);
    std::vector<plan::CollectiveLinks> of_groups;
    for (const int rank : members) of_groups.push_back(links.of({axis, rank}));
    return of_groups;
  };
  if (plan.pp > 1 && differ(job, plan.ranks())) options.stage_speeds = stage_speeds(job, plan);
  if (!job.models.empty()) options.device_of = [&](int rank) { return group_of(job, rank); };
  options.after_pass = after_pass;
  return plan::lower(job.training, plan, job.backend, options);
}

/// How long replicas take, each as its slowest rank does.
std::vector<plan::ReplicaPace> paces(const plan::Program& program, const ProgramCosts& costs) {
  const auto axis = replicas_axis(program);
  std::vector<BusySeconds> of_role;
  for (std::size_t r = 0; r < program.roles.size(); ++r) of_role.push_back(busy_seconds(program, program.roles[r], costs.roles[r]));
  std::vector<plan::ReplicaPace> found(static_cast<std::size_t>(program.plan.dp), {0, 0});
  for (int rank = 0; rank < program.ranks; ++rank) {
    const auto& busy = of_role[program.role_of[static_cast<std::size_t>(rank)]];
    double samples = 0;
    for (int m = 0; m < plan::micro_batches_of(program, rank); ++m) samples += static_cast<double>(plan::samples(program, rank, m).count);
    auto& pace = found[static_cast<std::size_t>(coordinate(program, rank, axis))];
    if (busy.micro_batches / samples > pace.per_sample) pace = {busy.once, busy.micro_batches / samples};
  }
  return found;
}

double closed_seconds(const Workload& job, const plan::Program& program, const ProgramCosts& costs) {
  return closed_form_evaluator()->evaluate({program, costs, job.platform, job.model}).step.value();
}

/// With shares by which all replicas end at the same time; with equal ones where replicas must have as many samples, or where whole samples
/// and sums that wait for the last replica make equal ones no slower.
plan::Program lowered_by_speed(const Workload& job, const plan::Plan& plan) {
  auto even = plan;
  even.shares = "equal";
  auto program = lowered(job, even);
  const auto costs = cost_of(job, program);
  const auto batch = job.training.batch;
  const auto unit = plan.micro_batch && batch / *plan.micro_batch >= plan.dp ? *plan.micro_batch : 1;
  auto by_speed = plan;
  by_speed.shares = plan::text_of_shares(plan::samples_by_pace(batch, unit, paces(program, costs)));
  if (!plan::has_uneven_shares(batch, by_speed)) return program;
  const auto evenly = [&](const std::string& why) {
    program.warnings.push_back("replicas on slower devices have as many samples as the others: " + why);
    return std::move(program);
  };
  if (const auto faults = plan::validate(job.training, by_speed); !faults.empty())
    return evenly(faults.front().key + ": " + faults.front().problem);
  try {
    auto uneven = lowered(job, by_speed);
    const bool quicker = closed_seconds(job, uneven, cost_of(job, uneven)) < closed_seconds(job, program, costs);
    return quicker ? std::move(uneven) : std::move(program);
  } catch (const plan::UnevenShares& obstacle) {
    return evenly(obstacle.what());
  }
}

/// "A100-SXM4-40GB take 192 samples of a step, V100-SXM2-16GB 64"; by replica where one kind of device has several shares.
std::string sentence_of_shares(const plan::Program& program, const platforms::Platform& platform) {
  const bool uneven = plan::has_uneven_shares(program.batch, program.plan);
  std::vector<std::pair<std::string, std::int64_t>> of_devices;
  const auto axis = replicas_axis(program);
  std::set<int> counted;
  for (int rank = 0; rank < program.ranks && program.plan.dp > 1; ++rank) {
    if (!counted.insert(coordinate(program, rank, axis)).second) continue;
    const auto& name = platforms::device_of(platform, rank).name;
    auto known = std::ranges::find(of_devices, name, &std::pair<std::string, std::int64_t>::first);
    if (known == of_devices.end()) known = of_devices.insert(known, {name, 0});
    for (int m = 0; m < plan::micro_batches_of(program, rank); ++m) known->second += plan::samples(program, rank, m).count;
  }
  if (of_devices.size() > 1)
    return joined(of_devices, ", ", [&](const auto& d) {
      return d.first + (&d == &of_devices.front() ? " take " : " ") + std::to_string(d.second) +
             (&d == &of_devices.front() ? " samples of a step" : "");
    });
  return uneven ? "replicas take " + plan::text_of_shares(plan::samples_of_replicas(program.batch, program.plan)) +
                      " samples of a step, all on " + of_devices.front().first
                : "";
}

}  // namespace

std::string bottleneck_of(const Breakdown& b) {
  return std::string(std::ranges::max_element(kBreakdownParts, {}, [&](const BreakdownPart& p) { return b.*p.seconds; })->name);
}

int threads_per_rank(const platforms::Platform& platform, int ranks) { return threads_of_rank(platform, ranks, 0); }

int threads_of_rank(const platforms::Platform& platform, int ranks, int rank) {
  const auto& node = platforms::node_of(platform, rank);
  if (node.device.kind != platforms::DeviceKind::Cpu) return 1;
  return std::max(1, node.host_cores / std::min(ranks, node.devices));
}

plan::Program lower_for(const Workload& job, const plan::Plan& plan, const PassListener& after_pass) {
  if (plan.ranks() > platforms::device_count(job.platform))
    throw Refusal("plan " + to_text(plan) + " needs " + std::to_string(plan.ranks()) + " devices, platform " + job.platform.name + " has " +
                  std::to_string(platforms::device_count(job.platform)) + "; use fewer ranks or --nodes N");
  check_host_link(job, plan);
  check_compressor(job, plan);
  auto program = plan.shares == "speed" && plan.dp > 1 && plan.ep == 1 && !plan.has_shard_groups() && differ(job, plan.ranks())
                     ? lowered_by_speed(job, plan)
                     : lowered(job, plan, after_pass);
  check_host_memory(job, program);
  return program;
}

plan::Program lower_anywhere(const Workload& job, const plan::Plan& plan, int threads) {
  return plan::lower(job.training, plan, job.backend, options_anywhere(job, threads));
}

ProgramCosts cost_of(const Workload& job, const plan::Program& program) {
  return cost_of(program, job.training, [&](int rank) {
    return RankDevice{job.model_of(rank), threads_of_rank(job.platform, program.ranks, rank)};
  });
}

namespace {

/// FLOP/s of all that the ranks compute on: on processors the cores that they have, which may be those of several.
double peak_of(const Workload& job, int ranks) {
  double peak = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& device = platforms::device_of(job.platform, rank);
    const int threads = threads_of_rank(job.platform, ranks, rank);
    const double share = device.kind == platforms::DeviceKind::Cpu ? static_cast<double>(threads) / device.compute_units : 1;
    peak += share * device.peak(job.peak_key).value_or(FlopsPerSecond(0)).value();
  }
  return peak;
}

}  // namespace

std::string idle_on_mixed(const platforms::Platform& platform, int ranks) {
  const int devices = platforms::device_count(platform);
  if (platform.nodes.size() == 1 || ranks >= devices) return {};
  std::map<std::string, int> used, idle;
  for (int rank = 0; rank < devices; ++rank) ++(rank < ranks ? used : idle)[platforms::device_of(platform, rank).name];
  if (used.size() == 1 && idle.size() == 1 && used.begin()->first == idle.begin()->first) return {};
  const auto text = [](const std::map<std::string, int>& counts) {
    std::vector<std::string> kinds;
    for (const auto& [name, count] : counts) kinds.push_back(std::to_string(count) + " " + name);
    return joined(kinds, " and ");
  };
  return "plan: its " + std::to_string(ranks) + " ranks are on the first devices of platform " + platform.name + ", " + text(used) +
         ", and " + text(idle) + " are idle; the plan's key fill says which groups of nodes come first";
}

Assessment assess(const Workload& job, const plan::Program& program, StepEvaluator& evaluator, bool keep_timeline, StepCost* cost_out) {
  const auto costs = cost_of(job, program);
  auto cost = evaluator.evaluate({program, costs, job.platform, job.model, keep_timeline});
  Assessment a;
  a.plan = program.plan;
  a.warnings = program.warnings;
  a.shares = sentence_of_shares(program, job.platform);
  a.platform = job.platform.name;
  a.framework = costmodel::own_framework().name;
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
  const double peak = peak_of(job, program.ranks);
  if (!job.facts->flops) job.facts->flops = graph::flops_of(job.training.graph);
  a.mfu = peak > 0 ? *job.facts->flops / a.step.value() / peak : 0;
  set_memory(job, program, a);
  a.checkpoint = checkpoint_size(program, job.training.graph, job.platform);
  if (cost_out != nullptr) *cost_out = std::move(cost);
  return a;
}

Assessment assess(const Workload& job, const plan::Plan& plan, StepEvaluator& evaluator) {
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

std::string doubt(const Assessment& a) {
  return shortage(a) + ": it runs out of memory with a chance of " + chance_text(chance_of_running_out(a)) +
         ", since what it needs lies between " + to_text(Bytes(static_cast<double>(a.memory_low))) + " and " +
         to_text(Bytes(static_cast<double>(a.memory_high)));
}

}  // namespace rehearsal::predict
