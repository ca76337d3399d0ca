#include "predict/lowered_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.hpp"
#include "costmodel/money.hpp"
#include "plan/lowering/lowering.hpp"
#include "plan/schedules/schedule.hpp"
#include "platforms/fabric.hpp"
#include "predict/group_links.hpp"

namespace rehearsal::predict {
namespace {

constexpr double kRounding = 1 - 1e-9;  // the closed form adds up in another order
constexpr double kFullerTiles = 0.8;    // of the time of a sample, where a micro-batch has more of them
constexpr double kLeastSum = 0.95;      // of a sum of all gradients at once: what some algorithms gain when they are cut

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

/// `visit`: of every kernel that `wanted` says, and its seconds.
template <class Wanted, class Visit>
void for_kernels(const plan::Role& role, const RoleCosts& costs, const Wanted& wanted, const Visit& visit) {
  for (std::size_t b = 0; b < role.bodies.size(); ++b)
    for (std::size_t n = 0; n < role.bodies[b].instructions.size(); ++n) {
      const auto& i = role.bodies[b].instructions[n];
      if (wanted(role.bodies[b], i)) visit(role.bodies[b], i, costs.seconds[b][n].front().seconds.value());
    }
}

double kernel_seconds(const plan::Role& role, const RoleCosts& costs) {
  double seconds = 0;
  for_kernels(role, costs, runs_in_every_pass, [&](const plan::Body&, const plan::Instruction&, double own) { seconds += own; });
  return seconds;
}

bool updates(const plan::Body& body, const plan::Instruction& i) {
  return body.kind == plan::BodyKind::Update && i.kind == plan::InstructionKind::Kernel && i.phase == graph::Phase::Update &&
         i.when == plan::When::Always && i.during == plan::During::Training;
}

/// Does every rank sum all gradients of its stage with the other replicas' in each step, and update all of its weights itself?
bool meets_in_every_step(const plan::Plan& plan) {
  return plan.local_steps == 0 && plan.compression == plan::Compression{} && plan.ep == 1 && !plan::schedule(plan.schedule).asynchronous;
}

/// The links of a plan's groups, without a Program of it.
class MeshLinks {
 public:
  MeshLinks(const Workload& job, const plan::Plan& plan) : fabric_(job.platform), links_(mesh_, job.platform, fabric_, job.model) {
    mesh_.plan = plan;
    mesh_.ranks = plan.ranks();
    mesh_.axes = plan::mesh_of(plan);
  }

  [[nodiscard]] std::optional<std::size_t> axis(std::string_view name) const {
    const auto at = std::ranges::find(mesh_.axes, name, &plan::MeshAxisInfo::name);
    return at == mesh_.axes.end() ? std::nullopt : std::optional(static_cast<std::size_t>(at - mesh_.axes.begin()));
  }
  [[nodiscard]] int size(std::size_t axis) const { return mesh_.axes[axis].size; }
  [[nodiscard]] int stride(std::size_t axis) const { return mesh_.axes[axis].stride; }
  /// Of the first rank's group.
  [[nodiscard]] const plan::CollectiveLinks& of(std::size_t axis) const { return links_.of({axis, 0}); }

 private:
  plan::Program mesh_;
  platforms::Fabric fabric_;
  mutable GroupLinks links_;
};

double least_time(plan::CollectiveKind kind, int ranks, double bytes, const plan::CollectiveLinks& links) {
  if (ranks == 1) return 0;
  return kLeastSum * plan::best_collective(kind, ranks, Bytes(bytes), links).closed_form(ranks, Bytes(bytes), links).value();
}

/// What replicas sum and gather of so many bytes of gradients and weights in a step.
double least_sums(const plan::Plan& plan, int micro_batches, double bytes, const plan::CollectiveLinks& shards,
                  const plan::CollectiveLinks& copies) {
  if (plan.zero == 0) return least_time(plan::CollectiveKind::AllReduce, plan.dp, bytes, copies);
  const int parts = plan.shard_ranks();
  const double scatter = least_time(plan::CollectiveKind::ReduceScatter, parts, bytes, shards);
  const double gather = least_time(plan::CollectiveKind::AllGather, parts, bytes, shards);
  const double sum = plan.has_shard_groups() ? least_time(plan::CollectiveKind::AllReduce, plan.dp / parts, bytes / parts, copies) : 0;
  return (plan.zero >= 2 ? micro_batches : 1) * scatter + (plan.zero >= 3 ? micro_batches : 1) * gather + sum;
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

bool sums_are_wider(const graph::TrainingGraph& training) {
  if (training.parameters.empty()) return false;
  const auto dtype = training.graph[training.parameters.front().value].type.dtype;
  return plan::sum_type(dtype) != dtype;
}

/// Of all devices: what does not fit there fits nowhere.
Bytes largest_memory(const platforms::Platform& platform) {
  const auto memory = [](const platforms::NodeGroup& nodes) { return nodes.device.memory.value; };
  return memory(*std::ranges::max_element(platform.nodes, {}, memory));
}

/// Ranks that share out a layer's tensors wait for the slowest of them.
std::size_t slowest_role(const plan::Program& program, const ProgramCosts& costs) {
  std::size_t slowest = 0;
  for (std::size_t r = 1; r < program.roles.size(); ++r)
    if (kernel_seconds(program.roles[r], costs.roles[r]) > kernel_seconds(program.roles[slowest], costs.roles[slowest])) slowest = r;
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
  const auto micro = even_micro_batches(plan, job_.training.batch);
  const auto& pass = pass_of(plan, micro.samples);
  if (!pass) return outlook;
  outlook.memory_bytes = static_cast<std::int64_t>(pass->bytes(plan));
  outlook.memory_capacity = static_cast<std::int64_t>(largest_memory(job_.platform).value());
  outlook.step = pass->kernels * (passes_in_a_step(plan, micro.count) * kRounding);
  if (job_.platform.nodes.size() > 1 && plan.shares == "speed")
    outlook.step = shared_by_speed(plan, *pass, static_cast<double>(micro.count));
  outlook.step = std::max(outlook.step, Seconds(of_mean_stage(plan, *pass, static_cast<int>(micro.count)) * kRounding));
  outlook.cost = costmodel::job_cost(job_.platform, plan.ranks(), outlook.step, Joules(0));
  return outlook;
}

/// Replicas that end at the same time take as long as all samples take at the sum of their speeds, each at that of its quickest devices.
/// Of one micro-batch a replica there may be a larger one, of which tiles are filled better.
Seconds LoweredBounds::shared_by_speed(const plan::Plan& plan, const PassCost& pass, double micro_batches) const {
  const MeshLinks mesh(job_, plan);
  const auto axis = mesh.axis("dp");
  std::map<int, double> quickest;  // by replica, seconds of a micro-batch
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const auto kind = static_cast<std::size_t>(platforms::place(job_.platform, rank).group);
    const int replica = axis ? rank / mesh.stride(*axis) % mesh.size(*axis) : 0;
    auto& seconds = quickest.try_emplace(replica, std::numeric_limits<double>::infinity()).first->second;
    seconds = std::min(seconds, pass.by_kind[kind].value());
  }
  double speed = 0;  // micro-batches a second
  for (const auto& [replica, seconds] : quickest) speed += 1 / seconds;
  const double mean = static_cast<double>(quickest.size()) * micro_batches;
  return Seconds(mean / speed / plan.pp * (plan.micro_batch ? kRounding : kFullerTiles));
}

/// Where lowering cuts a pipeline depends on all of the plan. However it does, what one rank would have to do without stages is done by
/// those of all stages together, and one of them has no less to do than they have in the mean. Of what is sent, each stage's part takes no
/// less than its share of the whole.
double LoweredBounds::of_mean_stage(const plan::Plan& plan, const PassCost& pass, int micro_batches) {
  if (job_.platform.nodes.size() > 1) return 0;
  const double passes = micro_batches * (pass.kernels.value() + exchanges_of(plan, pass));
  const double once = meets_in_every_step(plan) ? update_of(plan, pass) + sums_of(plan, pass, micro_batches) : 0;
  return (passes + once) / plan.pp;
}

/// Of weights that are on every replica.
double LoweredBounds::update_of(const plan::Plan& plan, const PassCost& pass) {
  const bool whole = plan.zero == 0 && plan.offload != plan::Offload::Optimizer;
  return whole && plan.decompositions == plan::Decompositions::Everywhere ? pass.update : 0;
}

/// Where processors move messages themselves, they do so before or behind kernels: nothing hides the sums of gradients. Several sums take
/// no less than a single one of all that they sum.
double LoweredBounds::sums_of(const plan::Plan& plan, const PassCost& pass, int micro_batches) {
  if (!job_.model.host_progressed() || plan.dp == 1) return 0;
  // Ranks that share out a sample have summed parts of their own before.
  const int alike = plan.cp * plan.spatial[0] * plan.spatial[1] * plan.spatial[2];
  const auto& links = links_of_replicas(plan);
  return least_sums(plan, micro_batches, pass.gradient_bytes / alike, links.shards, links.copies) * job_.model.communication_factor();
}

/// What ranks that share out layers tell each other in the passes of a micro-batch.
double LoweredBounds::exchanges_of(const plan::Plan& plan, const PassCost& pass) const {
  if (!job_.model.host_progressed() || pass.exchanges.empty()) return 0;
  const MeshLinks mesh(job_, plan);
  double seconds = 0;
  for (const auto& e : pass.exchanges)
    if (const auto axis = mesh.axis(e.axis)) seconds += least_time(e.kind, mesh.size(*axis), e.bytes, mesh.of(*axis));
  return seconds * job_.model.communication_factor();
}

const LoweredBounds::ReplicaLinks& LoweredBounds::links_of_replicas(const plan::Plan& plan) {
  auto degrees = split_of(plan);
  degrees.dp = plan.dp, degrees.pp = plan.pp, degrees.order = plan.order;
  degrees.micro_batch.reset();
  if (plan.has_shard_groups()) degrees.zero = 1, degrees.zero_group = plan.zero_group;
  const auto [at, fresh] = links_.try_emplace(to_text(degrees));
  if (!fresh) return at->second;
  const MeshLinks mesh(job_, plan);
  const auto copies = mesh.axis("dp"), shards = plan.has_shard_groups() ? mesh.axis("shard") : copies;
  at->second = {mesh.of(*shards), mesh.of(*copies)};
  return at->second;
}

const std::optional<LoweredBounds::PassCost>& LoweredBounds::pass_of(const plan::Plan& plan, std::int64_t samples) {
  auto split = split_of(plan);
  split.micro_batch = samples;
  // Updates read a 16-bit gradient of one micro-batch as it is, and sums of several in f32.
  if (sums_are_wider(job_.training) && plan.replica_batch(job_.training.batch) == samples) split.dp = plan.dp;
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

/// Sums of weights' gradients are none of them: a step has those once.
void LoweredBounds::add_exchanges(const plan::Program& program, PassCost& pass) const {
  const auto& role = program.roles.front();
  std::set<graph::TensorId> summed{graph::TensorId::None};
  for (const auto& parameter : job_.training.parameters) summed.insert(parameter.gradient);
  for (const auto& body : role.bodies)
    for (const auto& i : body.instructions) {
      if (!plan::per_micro_batch(body.kind) || i.kind != plan::InstructionKind::Collective || i.when != plan::When::Always) continue;
      const auto& info = role.collectives[static_cast<std::size_t>(i.collective)];
      const bool plain = info.kind == plan::CollectiveKind::AllReduce || info.kind == plan::CollectiveKind::AllGather ||
                         info.kind == plan::CollectiveKind::ReduceScatter;
      if (!plain || summed.contains(role.buffers[i.outputs.front()].tensor)) continue;
      pass.exchanges.push_back({program.axes[info.axis].name, info.kind, static_cast<double>(plan::message_bytes(role, i, 0))});
    }
}

LoweredBounds::PassCost LoweredBounds::measured(const plan::Program& program, const std::vector<RankDevice>& devices) const {
  PassCost pass;
  for (const auto& device : devices) {
    const auto costs = cost_of(program, job_.training, device.model, device.threads);
    const auto slowest = slowest_role(program, costs);
    pass.by_kind.emplace_back(kernel_seconds(program.roles[slowest], costs.roles[slowest]));
    double update = 0;
    for_kernels(program.roles[slowest], costs.roles[slowest], updates,
                [&](const plan::Body&, const plan::Instruction&, double seconds) { update += seconds; });
    pass.update = pass.by_kind.size() == 1 ? update : std::min(pass.update, update);
  }
  pass.kernels = std::ranges::min(pass.by_kind);
  const auto& role = program.roles.front();
  add_exchanges(program, pass);
  const auto& sharding = *program.sharding;
  plan::Coordinates last;  // who has least where parts differ
  for (const auto& axis : sharding.axes) last.push_back(axis.size - 1);
  for (const auto& parameter : job_.training.parameters) {
    const auto& gradient = job_.training.graph[parameter.gradient];
    if (gradient.producer == graph::NodeId::None) continue;
    const auto elements = graph::element_count(sharding.result_shape(parameter.value, last));
    pass.gradient_bytes += static_cast<double>(elements) * static_cast<double>(size_of(gradient.type.dtype));
  }
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
