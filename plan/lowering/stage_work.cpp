#include "plan/lowering/stage_work.hpp"

#include <algorithm>

#include "graph/op_schema.hpp"
#include "plan/schedules/model_chunks.hpp"

namespace rehearsal::plan {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Phase;
using graph::TensorId;

/// Usual devices, in products that they do meanwhile. What they reach, not what datasheets say: A100 and H100 do 140 and 240 while they
/// move a byte in 16 bits, and 9 and 18 in 32 bits, as do server processors. Launching a kernel takes all of them about 5 us.
struct UsualDevice {
  double while_moved = 15;      ///< a byte, in memory
  double while_sent = 2000;     ///< a byte to the next stage, and one back: by links of 12 to 50 GB/s, of processors 1 GB/s
  double while_launched = 5e7;  ///< a kernel
};

/// A message takes about as long as two kernels before its first byte is there; one goes forth, and one back.
constexpr double kLaunchesOfMessage = 4;

UsualDevice usual_device(DType type) {
  constexpr UsualDevice kOf16Bits{180, 16000, 2e9}, kOf8Bits{360, 32000, 4e9};
  const auto bytes = size_of(type);
  return bytes == 1 ? kOf8Bits : bytes == 2 ? kOf16Bits : UsualDevice{};
}

/// Of one node in a step, on one rank.
struct NodeLoad {
  NodeId owner;  ///< the forward node that it is cut with
  double flops = 0, bytes = 0;
  double added_bytes = 0;  ///< beside the kernel's: to add gradients to those of the micro-batches before
  double launches = 0;
  UsualDevice usual = {};  ///< at its type
};

class StepLoad {
 public:
  StepLoad(const graph::TrainingGraph& training, const Sharding& sharding, const StepPasses& step)
      : g_(training.graph),
        sharding_(sharding),
        step_(step),
        origin_(sharding.axes.size(), 0),
        is_gradient_(g_.tensors().size(), false),
        owner_(g_.nodes().size(), NodeId::None) {
    for (const auto& p : training.parameters)
      if (p.gradient != TensorId::None) is_gradient_[graph::index(p.gradient)] = true;
  }

  [[nodiscard]] std::vector<NodeLoad> all() {
    std::vector<NodeLoad> loads;
    for (std::size_t n = 0; n < g_.nodes().size(); ++n) {
      const auto id = static_cast<NodeId>(n);
      owner_[n] = owner_of(id);
      if (owner_[n] != NodeId::None) loads.push_back(of(id));
    }
    return loads;
  }

  /// That a rank would send of a result in a step.
  [[nodiscard]] double sent_bytes(TensorId t) const {
    return graph::size_of({g_[t].type.dtype, sharding_.result_shape(t, origin_)}).value() * step_.micro_batches;
  }

 private:
  /// Sums of gradients belong to the earliest of theirs, updates to their gradient.
  [[nodiscard]] NodeId owner_of(NodeId n) const {
    const auto& node = g_[n];
    if (node.phase == Phase::Forward) return n;
    if (node.forward != NodeId::None) return node.forward;
    NodeId earliest = NodeId::None;
    for (const TensorId t : node.inputs) {
      if (t == TensorId::None || g_[t].producer == NodeId::None || g_[g_[t].producer].phase == Phase::Forward) continue;
      const NodeId owner = owner_[graph::index(g_[t].producer)];
      if (owner != NodeId::None && (earliest == NodeId::None || owner < earliest)) earliest = owner;
    }
    return earliest;
  }

  /// Attention that goes round is in turns, with a block of keys in each: of all turns a rank has its share.
  [[nodiscard]] graph::Work share_of_ring(NodeId n) const {
    double share = 1;
    for (std::size_t a = 0; a < sharding_.axes.size(); ++a)
      if (sharding_.choice(n, a) != nullptr) share /= static_cast<double>(sharding_.axes[a].size);
    const graph::NodeTypes types(g_, g_[n]);
    const auto whole = graph::work_of(graph::schema(g_[n]), types.view());
    return {whole.flops * share, whole.bytes * share};
  }

  [[nodiscard]] graph::Work work_on_rank(NodeId n) const {
    const auto& node = g_[n];
    if (sharding_.ring_of(n) != nullptr) return share_of_ring(n);
    std::vector<std::optional<graph::TensorType>> inputs, outputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorId t = node.inputs[i];
      inputs.push_back(t == TensorId::None ? std::nullopt
                                           : std::optional(graph::TensorType{g_[t].type.dtype, sharding_.operand_shape(n, i, origin_)}));
    }
    for (const TensorId t : node.outputs)
      outputs.push_back(t == TensorId::None ? std::nullopt
                                            : std::optional(graph::TensorType{g_[t].type.dtype, sharding_.result_shape(t, origin_)}));
    const auto attributes = sharding_.attributes_on(n, origin_);
    return graph::work_of(graph::schema(node), {inputs, outputs, attributes ? *attributes : node.attributes});
  }

  [[nodiscard]] NodeLoad of(NodeId n) const {
    const auto work = work_on_rank(n);
    const NodeId owner = owner_[graph::index(n)];
    const bool no_kernel = graph::schema(g_[n]).family == graph::CostFamily::View;
    // Of its scores nothing moves. What sums gradients of shared keys behind its kernel is left out as well.
    const bool inside = g_[n].phase != Phase::Update && sharding_.fused_at(owner) != nullptr;
    const double times = sharding_.parts[graph::index(n)] == LoopPart::Inside ? step_.micro_batches : 1;
    NodeLoad load{owner, times * work.flops.value()};
    load.usual = usual_device(type_of_products(g_[n]));
    if (no_kernel || inside) return load;
    load.bytes = times * work.bytes.value();
    load.launches = times;
    load.added_bytes = added_bytes(n);
    return load;
  }

  [[nodiscard]] DType type_of_products(const graph::Node& node) const {
    for (const auto* tensors : {&node.inputs, &node.outputs})
      for (const TensorId t : *tensors)
        if (t != TensorId::None && is_float(g_[t].type.dtype)) return g_[t].type.dtype;
    return DType::F32;
  }

  [[nodiscard]] double added_bytes(NodeId n) const {
    constexpr double kReadsAndWrites = 3;
    double sum = 0;
    if (step_.micro_batches == 1) return sum;
    for (const TensorId t : g_[n].outputs)
      if (t != TensorId::None && is_gradient_[graph::index(t)]) sum += sent_bytes(t);
    return kReadsAndWrites * sum;
  }

  const Graph& g_;
  const Sharding& sharding_;
  const StepPasses& step_;
  Coordinates origin_;
  std::vector<bool> is_gradient_;
  std::vector<NodeId> owner_;
};

/// Of forward nodes, by NodeId.
std::vector<double> times_of(const Graph& g, const std::vector<NodeLoad>& loads) {
  std::vector<double> sums(g.nodes().size(), 0.0);
  for (const auto& l : loads)
    sums[graph::index(l.owner)] +=
        std::max(l.flops, l.usual.while_moved * l.bytes) + l.usual.while_moved * l.added_bytes + l.usual.while_launched * l.launches;
  return sums;
}

std::vector<double> times_of(const Graph& g, const std::vector<NodeLoad>& loads, const StageSpeed& speed) {
  std::vector<double> sums(g.nodes().size(), 0.0);
  for (const auto& l : loads)
    sums[graph::index(l.owner)] += std::max(Flops(l.flops) / speed.flops, Bytes(l.bytes) / speed.bytes).value() +
                                   (Bytes(l.added_bytes) / speed.bytes).value() + l.launches * speed.launch.value();
  return sums;
}

}  // namespace

StageBalance work_of_stages(const graph::TrainingGraph& training, const Sharding& sharding, const StepPasses& step) {
  StepLoad load(training, sharding, step);
  const auto& g = training.graph;
  const auto loads = load.all();
  StageBalance balance;
  if (step.speeds.empty()) balance.node_costs.push_back(times_of(g, loads));
  for (const auto& speed : step.speeds) balance.node_costs.push_back(times_of(g, loads, speed));
  const double of_flop = step.speeds.empty() ? 1 : 1 / std::ranges::min(step.speeds, {}, &StageSpeed::flops).flops.value();
  balance.sending_costs.assign(g.tensors().size(), 0.0);
  for (std::size_t t = 0; t < g.tensors().size(); ++t) {
    const auto producer = g.tensors()[t].producer;
    if (producer == NodeId::None || g[producer].phase != Phase::Forward) continue;
    const auto usual = usual_device(g.tensors()[t].type.dtype);
    balance.sending_costs[t] = of_flop * (usual.while_sent * load.sent_bytes(static_cast<TensorId>(t)) +
                                          kLaunchesOfMessage * usual.while_launched * step.micro_batches);
  }
  return balance;
}

StageAssignment cut_into_parts(const graph::TrainingGraph& training, const Sharding& sharding, const Program& program,
                               const LoweringOptions& options) {
  Plan cut = program.plan;
  const auto shape = pipeline_shape(cut, program.micro_batches);
  const auto& schedule = schedule_of(cut);
  cut.pp = parts(schedule.placement, shape);
  if (cut.pp == 1 || !cut.cuts.empty()) return assign_stages(training, cut, {});
  StepPasses step{program.micro_batches};
  const auto places = places_of_parts(schedule, shape);
  for (const auto& place : places)
    if (!options.stage_speeds.empty()) step.speeds.push_back(options.stage_speeds[static_cast<std::size_t>(place.stage)]);
  auto balance = work_of_stages(training, sharding, step);
  if (cut.pp > program.plan.pp)
    for (const auto& place : places) balance.devices.push_back(place.stage);
  return assign_stages(training, cut, balance);
}

}  // namespace rehearsal::plan
