#include "predict/lowered_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.hpp"
#include "costmodel/money.hpp"
#include "plan/schedules/schedule.hpp"

namespace rehearsal::predict {
namespace {

constexpr double kRounding = 1 - 1e-9;  // the closed form adds up in another order

/// What decides which kernels a micro-batch passes, and nothing else of a plan.
plan::Plan split_of(const plan::Plan& plan) {
  plan::Plan split;
  split.tp = plan.tp, split.cp = plan.cp, split.ep = plan.ep, split.spatial = plan.spatial;
  split.dp = plan.expert_ranks();
  split.micro_batch = plan.micro_batch;
  split.sequence_parallel = plan.sequence_parallel;
  split.attention = plan.attention, split.fuse = plan.fuse, split.bn = plan.bn;
  return split;
}

/// Samples of a micro-batch and how many of them a replica has; of none where some replicas or micro-batches have more than others.
struct MicroBatches {
  std::int64_t samples = 1, count = 0;
};
MicroBatches even_micro_batches(const plan::Plan& plan, std::int64_t batch) {
  if (batch % plan.dp != 0 || (plan.shares != "speed" && plan.shares != "equal")) return {};
  const auto own = plan.replica_batch(batch), samples = plan.slot_batch(batch);
  if (own % samples != 0) return {};
  return {samples, own / samples};
}

/// Times that a micro-batch's way through all layers fits into a step at least. Stages that together take 1 a micro-batch: the slowest has
/// 1 / stages of it, m times. In schedules with whole passes and a flush the first micro-batch must come to a stage s, and its last
/// gradient go back from there: a step is at least m·t_s + t_0 + ... + t_(s-1) for every s. The least that these can all be, over the ways
/// to cut, is 1 / (1 - (1 - 1/m)^stages): the t_s for which they are equal.
double passes_in_a_step(const plan::Plan& plan, std::int64_t micro_batches) {
  if (micro_batches == 0) return 0;
  const auto m = static_cast<double>(micro_batches);
  if (!plan::schedule(plan.schedule).plain()) return m / plan.pp;
  return 1 / (1 - std::pow(1 - 1 / m, plan.pp));
}

bool runs_in_every_pass(const plan::Body& body, const plan::Instruction& i) {
  return plan::per_micro_batch(body.kind) && i.kind == plan::InstructionKind::Kernel && i.when == plan::When::Always;
}

double kernel_seconds(const plan::Role& role, const RoleCosts& costs) {
  double seconds = 0;
  for (std::size_t b = 0; b < role.bodies.size(); ++b)
    for (std::size_t n = 0; n < role.bodies[b].instructions.size(); ++n)
      if (runs_in_every_pass(role.bodies[b], role.bodies[b].instructions[n])) seconds += costs.seconds[b][n].front().seconds.value();
  return seconds;
}

/// Buffers, and those that they are parts of, which kernels of forward and backward passes read.
std::set<plan::BufferIndex> read_in_passes(const plan::Role& role) {
  std::set<plan::BufferIndex> read;
  const auto add = [&](plan::BufferIndex b) {
    for (; b != plan::kNoBuffer; b = role.buffers[b].part_of) read.insert(b);
  };
  for (const auto& body : role.bodies) {
    if (!plan::per_micro_batch(body.kind)) continue;
    for (const auto& i : body.instructions) std::ranges::for_each(i.inputs, add);
  }
  return read;
}

/// Of all devices: what does not fit there fits nowhere.
Bytes largest_memory(const platforms::Platform& platform) {
  const auto memory = [](const platforms::NodeGroup& nodes) { return nodes.device.memory.value; };
  return memory(*std::ranges::max_element(platform.nodes, {}, memory));
}

/// Ranks that share out a layer's tensors wait for the slowest of them.
Seconds slowest_role(const plan::Program& program, const ProgramCosts& costs) {
  Seconds slowest;
  for (std::size_t r = 0; r < program.roles.size(); ++r)
    slowest = std::max(slowest, Seconds(kernel_seconds(program.roles[r], costs.roles[r])));
  return slowest;
}

/// What ranks may run on, each kind once.
std::vector<RankDevice> kinds_of_devices(const Workload& job, int ranks) {
  std::vector<RankDevice> kinds;
  int first = 0;
  for (const auto& nodes : job.platform.nodes) {
    if (first < platforms::device_count(job.platform)) kinds.push_back({job.model_of(first), threads_of_rank(job.platform, ranks, first)});
    first += nodes.count * nodes.devices;
  }
  return kinds;
}

}  // namespace

double LoweredBounds::PassCost::bytes(const plan::Plan& plan) const {
  const double shards = plan.shard_ranks();
  const double updates = plan.offload == plan::Offload::Optimizer ? 0 : update_bytes / (plan.zero >= 1 ? shards : 1);
  return (working_bytes / (plan.zero >= 3 ? shards : 1) + updates) / plan.pp;
}

Outlook LoweredBounds::outlook(const plan::Plan& plan) {
  Outlook outlook;
  auto micro = even_micro_batches(plan, job_.training.batch);
  if (job_.platform.nodes.size() > 1 && plan.shares == "speed") micro.count = 0;  // replicas on quicker devices have more of them
  const auto& pass = pass_of(plan, micro.samples);
  if (!pass) return outlook;
  outlook.memory_bytes = static_cast<std::int64_t>(pass->bytes(plan));
  outlook.memory_capacity = static_cast<std::int64_t>(largest_memory(job_.platform).value());
  outlook.step = pass->kernels * (passes_in_a_step(plan, micro.count) * kRounding);
  outlook.cost = costmodel::job_cost(job_.platform, plan.ranks(), outlook.step, Joules(0));
  return outlook;
}

const std::optional<LoweredBounds::PassCost>& LoweredBounds::pass_of(const plan::Plan& plan, std::int64_t samples) {
  auto split = split_of(plan);
  split.micro_batch = samples;
  const auto devices = kinds_of_devices(job_, plan.ranks());
  auto key = to_text(split);
  for (const auto& device : devices) key += " " + std::to_string(device.threads);
  const auto [found, is_new] = known_.try_emplace(key);
  if (is_new) found->second = lowered_pass(split, devices);
  return found->second;
}

std::optional<LoweredBounds::PassCost> LoweredBounds::lowered_pass(const plan::Plan& split, const std::vector<RankDevice>& devices) const {
  const int threads = devices.front().threads;
  try {
    return measured(lower_anywhere(job_, split, threads), devices);
  } catch (const plan::NoMicroBatches&) {  // of a model that takes its batch as a whole
  } catch (const Refusal&) {
    return std::nullopt;
  }
  auto whole = split;
  whole.dp = static_cast<int>(job_.training.batch / *split.micro_batch);
  whole.micro_batch.reset();
  try {
    return measured(lower_anywhere(job_, whole, threads), devices);
  } catch (const Refusal&) {
    return std::nullopt;
  }
}

LoweredBounds::PassCost LoweredBounds::measured(const plan::Program& program, const std::vector<RankDevice>& devices) const {
  PassCost pass;
  pass.kernels = Seconds(std::numeric_limits<double>::infinity());
  for (const auto& device : devices)
    pass.kernels = std::min(pass.kernels, slowest_role(program, cost_of(program, job_.training, device.model, device.threads)));
  const auto& role = program.roles.front();
  const auto read = read_in_passes(role);
  for (std::size_t b = 0; b < role.buffers.size(); ++b) {
    const auto& buffer = role.buffers[b];
    if (buffer.lifetime != plan::Lifetime::Persistent || buffer.part_of != plan::kNoBuffer || buffer.on_host) continue;
    if (buffer.category != plan::MemoryCategory::Parameters && buffer.category != plan::MemoryCategory::OptimizerState) continue;
    (read.contains(static_cast<plan::BufferIndex>(b)) ? pass.working_bytes : pass.update_bytes) += static_cast<double>(buffer.bytes);
  }
  return pass;
}

}  // namespace rehearsal::predict
