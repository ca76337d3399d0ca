#include "predict/lowered_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.hpp"
#include "costmodel/money.hpp"
#include "graph/op_schema.hpp"
#include "plan/lowering/lowering.hpp"
#include "plan/schedules/model_chunks.hpp"
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
  /// From the first rank to the next one along an axis.
  [[nodiscard]] platforms::Path next(std::size_t axis) const { return fabric_.path(0, mesh_.axes[axis].stride); }
  [[nodiscard]] int size(std::size_t axis) const { return mesh_.axes[axis].size; }
  [[nodiscard]] int stride(std::size_t axis) const { return mesh_.axes[axis].stride; }
  [[nodiscard]] const plan::CollectiveLinks& of(std::size_t axis, int rank) const { return links_.of({axis, rank}); }

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
  for (const double end : ends_of_stages(plan, *pass, static_cast<int>(micro.count)))
    outlook.step = std::max(outlook.step, Seconds(end * kRounding));
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

std::vector<double> LoweredBounds::ends_of_stages(const plan::Plan& plan, const PassCost& pass, int micro_batches) {
  if (job_.platform.nodes.size() > 1 || micro_batches == 0) return {};
  if (consumers_.empty()) consumers_ = job_.training.graph.consumers();
  // Where lowering cuts the model depends on all of the plan, and a bound has to hold for the cuts that it finds.
  if (plan.pp > 1 && plan.cuts.empty()) return {};
  if (!plan::schedule_violations(plan, micro_batches).empty()) return {};
  const auto& schedule = plan::schedule_of(plan);
  const auto shape = plan::pipeline_shape(plan, micro_batches);
  try {
    const auto count = plan::parts(schedule.placement, shape);
    const auto& stages = parts_of(plan, count);
    const auto parts = passes_of_parts(plan, pass, stages);
    auto ends = ends_of_kernels(schedule, shape, parts);
    if (ends.empty() || !meets_in_every_step(plan) || schedule.placement == plan::ChunkPlacement::Both) return ends;
    std::vector<int> stage_of_part;
    for (const auto& place : plan::places_of_parts(schedule, shape)) stage_of_part.push_back(place.stage);
    auto by_stage = stages;
    for (auto& part : by_stage.of_node) part = part == plan::kAnyStage ? part : stage_of_part[static_cast<std::size_t>(part)];
    add_updates(plan, pass, by_stage, ends);
    add_sums(plan, pass, by_stage, micro_batches, ends);
    return ends;
  } catch (const Refusal&) {  // fewer nodes than parts, which the closed form says better
    return {};
  }
}

/// Of weights that are on every replica.
void LoweredBounds::add_updates(const plan::Plan& plan, const PassCost& pass, const plan::StageAssignment& stages,
                                std::vector<double>& ends) const {
  if (plan.zero > 0 || plan.offload == plan::Offload::Optimizer || plan.decompositions != plan::Decompositions::Everywhere) return;
  for (std::size_t n = 0; n < pass.update_of_node.size(); ++n)
    if (stages.of_node[n] != plan::kAnyStage) ends[static_cast<std::size_t>(stages.of_node[n])] += pass.update_of_node[n];
}

/// Where processors move messages themselves, they do so before or behind kernels: nothing hides the sums of gradients. Several sums take
/// no less than a single one of all that they sum.
void LoweredBounds::add_sums(const plan::Plan& plan, const PassCost& pass, const plan::StageAssignment& stages, int micro_batches,
                             std::vector<double>& ends) {
  if (!job_.model.host_progressed() || plan.dp == 1) return;
  std::vector<double> bytes(ends.size(), 0.0);
  const auto& g = job_.training.graph;
  for (std::size_t p = 0; p < pass.gradient_bytes.size(); ++p) {
    const auto made_by = g[job_.training.parameters[p].gradient].producer;
    if (made_by == graph::NodeId::None || stages[made_by] == plan::kAnyStage) continue;
    bytes[static_cast<std::size_t>(stages[made_by])] += pass.gradient_bytes[p];
  }
  // Ranks that share out a sample have summed parts of their own before.
  const int alike = plan.cp * plan.spatial[0] * plan.spatial[1] * plan.spatial[2];
  const auto& links = links_of_replicas(plan);
  for (std::size_t s = 0; s < ends.size(); ++s)
    ends[s] += least_sums(plan, micro_batches, bytes[s] / alike, links[s].shards, links[s].copies) * job_.model.communication_factor();
}

/// What ranks that share out layers tell each other, where the part of the model that has to is certain.
void LoweredBounds::add_exchanges_of(const plan::Plan& plan, const PassCost& pass, const plan::StageAssignment& stages,
                                     std::vector<PartPasses>& parts) const {
  if (!job_.model.host_progressed() || pass.exchanges.empty()) return;
  const MeshLinks mesh(job_, plan);
  for (const auto& e : pass.exchanges) {
    const auto axis = mesh.axis(e.axis);
    const auto part = only_part(e.tensor, stages);
    if (!axis || !part) continue;
    auto& passes = parts[static_cast<std::size_t>(*part)];
    const double seconds = least_time(e.kind, mesh.size(*axis), e.bytes, mesh.of(*axis, 0)) * job_.model.communication_factor();
    (e.backward ? passes.backward : passes.forward) += seconds;
  }
}

/// Of what one part of the model computes and the next one, on another stage, reads, each of the ranks that share it out sends its part.
void LoweredBounds::add_sends(const plan::Plan& plan, const PassCost& pass, const plan::StageAssignment& stages,
                              std::vector<PartPasses>& parts) const {
  const MeshLinks mesh(job_, plan);
  const auto pipeline = mesh.axis("pp");
  if (!job_.model.host_progressed() || !pipeline || plan.compression != plan::Compression{}) return;
  const auto shape = plan::pipeline_shape(plan, 1);
  const auto places = plan::places_of_parts(plan::schedule_of(plan), shape);
  const double sharing = plan.ranks() / plan.pp / plan.dp;
  const auto path = mesh.next(*pipeline);
  const auto& g = job_.training.graph;
  for (std::size_t t = 0; t < g.tensors().size(); ++t) {
    const auto& tensor = g.tensors()[t];
    if (tensor.producer == graph::NodeId::None || !is_float(tensor.type.dtype)) continue;
    const bool backward = g[tensor.producer].phase == graph::Phase::Backward;
    const int from = stages[tensor.producer], to = from + (backward ? -1 : 1);
    if (from == plan::kAnyStage || to < 0 || to == static_cast<int>(parts.size()) || g[tensor.producer].phase == graph::Phase::Update)
      continue;
    const auto reads = [&](graph::NodeId n) { return stages[n] == to && g[n].phase == g[tensor.producer].phase; };
    if (places[static_cast<std::size_t>(from)].stage == places[static_cast<std::size_t>(to)].stage ||
        std::ranges::none_of(consumers_[t], reads))
      continue;
    const double bytes = static_cast<double>(graph::size_of(tensor.type).value()) * pass.samples_share / sharing;
    auto& passes = parts[static_cast<std::size_t>(from)];
    (backward ? passes.backward : passes.forward) +=
        kLeastSum * (path.latency.value() + bytes / path.bandwidth.value()) * job_.model.communication_factor();
  }
}

/// Which part of the model makes a tensor and is alone in reading it.
std::optional<int> LoweredBounds::only_part(graph::TensorId t, const plan::StageAssignment& stages) const {
  const auto& g = job_.training.graph;
  if (t == graph::TensorId::None || g[t].producer == graph::NodeId::None) return std::nullopt;
  const int part = stages[g[t].producer];
  const bool alone = std::ranges::all_of(consumers_[graph::index(t)], [&](graph::NodeId n) { return stages[n] == part; });
  return alone && part != plan::kAnyStage ? std::optional(part) : std::nullopt;
}

std::vector<PartPasses> LoweredBounds::passes_of_parts(const plan::Plan& plan, const PassCost& pass,
                                                       const plan::StageAssignment& stages) const {
  const auto last = std::ranges::max(stages.of_node);
  std::vector<PartPasses> parts(static_cast<std::size_t>(std::max(1, last + 1)));
  for (std::size_t n = 0; n < pass.of_node.size(); ++n) {
    if (stages.of_node[n] == plan::kAnyStage) continue;
    auto& part = parts[static_cast<std::size_t>(stages.of_node[n])];
    part.forward += pass.of_node[n].forward, part.backward += pass.of_node[n].backward;
  }
  add_exchanges_of(plan, pass, stages, parts);
  if (plan.pp > 1) add_sends(plan, pass, stages, parts);
  return parts;
}

const plan::StageAssignment& LoweredBounds::parts_of(const plan::Plan& plan, int parts) {
  const std::pair key{parts, plan.cuts};
  if (const auto known = cut_.find(key); known != cut_.end()) return known->second;
  auto cut = plan;
  cut.pp = parts;
  return cut_.emplace(key, plan::assign_stages(job_.training, cut, {})).first->second;
}

const std::vector<LoweredBounds::ReplicaLinks>& LoweredBounds::links_of_replicas(const plan::Plan& plan) {
  auto degrees = split_of(plan);
  degrees.dp = plan.dp, degrees.pp = plan.pp, degrees.order = plan.order;
  degrees.micro_batch.reset();
  if (plan.has_shard_groups()) degrees.zero = 1, degrees.zero_group = plan.zero_group;
  const auto [at, fresh] = links_.try_emplace(to_text(degrees));
  if (!fresh) return at->second;
  const MeshLinks mesh(job_, plan);
  const auto pipeline = mesh.axis("pp"), copies = mesh.axis("dp");
  const auto shards = plan.has_shard_groups() ? mesh.axis("shard") : copies;
  for (int stage = 0; stage < plan.pp; ++stage) {
    const int rank = pipeline ? stage * mesh.stride(*pipeline) : 0;
    at->second.push_back({mesh.of(*shards, rank), mesh.of(*copies, rank)});
  }
  return at->second;
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
      pass.exchanges.push_back({program.axes[info.axis].name, info.kind, static_cast<double>(plan::message_bytes(role, i, 0)),
                                role.buffers[i.outputs.front()].tensor, body.kind == plan::BodyKind::Backward});
    }
}

void LoweredBounds::add_nodes(const plan::Role& role, const RoleCosts& costs, PassCost& pass) const {
  pass.of_node.resize(job_.training.graph.nodes().size());
  pass.update_of_node.resize(pass.of_node.size());
  for_kernels(role, costs, runs_in_every_pass, [&](const plan::Body& body, const plan::Instruction& i, double seconds) {
    auto& node = pass.of_node[graph::index(i.node)];
    (body.kind == plan::BodyKind::Forward ? node.forward : node.backward) += seconds;
  });
  for_kernels(role, costs, updates,
              [&](const plan::Body&, const plan::Instruction& i, double seconds) { pass.update_of_node[graph::index(i.node)] += seconds; });
}

LoweredBounds::PassCost LoweredBounds::measured(const plan::Program& program, const std::vector<RankDevice>& devices) const {
  PassCost pass;
  for (const auto& device : devices) {
    const auto costs = cost_of(program, job_.training, device.model, device.threads);
    const auto slowest = slowest_role(program, costs);
    pass.by_kind.emplace_back(kernel_seconds(program.roles[slowest], costs.roles[slowest]));
    if (devices.size() == 1) add_nodes(program.roles[slowest], costs.roles[slowest], pass);
  }
  pass.kernels = std::ranges::min(pass.by_kind);
  const auto& role = program.roles.front();
  add_exchanges(program, pass);
  const auto samples = static_cast<double>(program.plan.slot_batch(program.batch));
  pass.samples_share = samples / static_cast<double>(program.batch);
  const auto& sharding = *program.sharding;
  plan::Coordinates last;  // who has least where parts differ
  for (const auto& axis : sharding.axes) last.push_back(axis.size - 1);
  for (const auto& parameter : job_.training.parameters) {
    const auto elements = graph::element_count(sharding.result_shape(parameter.value, last));
    pass.gradient_bytes.push_back(static_cast<double>(elements) *
                                  static_cast<double>(size_of(job_.training.graph[parameter.gradient].type.dtype)));
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
