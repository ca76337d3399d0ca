#include <algorithm>

#include "plan/sharding/passes.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;

std::vector<bool> tensors_of_weights(const graph::Graph& g) {
  std::vector<bool> weight(g.tensors().size()), fixed(g.tensors().size());
  for (std::size_t t = 0; t < weight.size(); ++t) {
    const graph::Tensor& tensor = g.tensors()[t];
    if (tensor.producer != NodeId::None) continue;
    weight[t] = graph::is_weight(tensor.role);
    fixed[t] = tensor.role == graph::TensorRole::Constant;
  }
  for (const auto& node : g.nodes()) {
    if (node.phase != graph::Phase::Forward) break;
    const auto counts = [&](TensorId t) { return t == TensorId::None || weight[graph::index(t)] || fixed[graph::index(t)]; };
    const bool of_weights = std::all_of(node.inputs.begin(), node.inputs.end(), counts);
    const bool any =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](TensorId t) { return t != TensorId::None && weight[graph::index(t)]; });
    for (const TensorId o : node.outputs) {
      if (o == TensorId::None) continue;
      weight[graph::index(o)] = of_weights && any;
      fixed[graph::index(o)] = of_weights && !any;
    }
  }
  return weight;
}

ShardingTask::ShardingTask(const graph::TrainingGraph& t, const graph::LogicalDims& d, const std::vector<MeshAxis>& a)
    : training(t),
      graph(t.graph),
      dims(d),
      axes(a),
      rules(resolve_rules(d, a)),
      use_count(t.graph.tensors().size()),
      data_only(t.graph.tensors().size()),
      weights(tensors_of_weights(t.graph)),
      whole(t.graph.nodes().size() * a.size()),
      unsplit(a.size()) {
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    const graph::Tensor& tensor = graph.tensors()[i];
    data_only[i] =
        tensor.producer == NodeId::None && (tensor.role == graph::TensorRole::Input || tensor.role == graph::TensorRole::Constant);
  }
  for (const graph::Node& node : graph.nodes()) {
    bool from_data = true;
    for (const TensorId i : node.inputs) {
      if (i == TensorId::None) continue;
      ++use_count[graph::index(i)];
      from_data = from_data && data_only[graph::index(i)];
    }
    for (const TensorId o : node.outputs) {
      if (o != TensorId::None) data_only[graph::index(o)] = from_data;
    }
  }
}

const RingNode* ShardingTask::in_ring(NodeId node) const {
  const auto number = ring_of_node.empty() ? -1 : ring_of_node[graph::index(node)];
  if (number < 0) return nullptr;
  const AttentionRing& ring = rings[static_cast<std::size_t>(number)];
  const auto& nodes = graph[node].phase == graph::Phase::Forward ? ring.forward : ring.backward;
  return &*std::find_if(nodes.begin(), nodes.end(), [&](const RingNode& n) { return n.node == node; });
}

std::size_t ShardingTask::axis_in_time() const {
  std::size_t a = 0;
  while (a < axes.size() && !(axes[a].in_time && axes[a].size > 1)) ++a;
  return a;
}

bool ShardingTask::compute_whole(const Sharding& sharding, TensorId t, std::size_t axis) {
  bool changed = false;
  std::vector<TensorId> open = {t};
  while (!open.empty()) {
    const NodeId producer = graph[open.back()].producer;
    open.pop_back();
    if (producer == NodeId::None || is_whole(producer, axis)) continue;
    if (sharding.choice(producer, axis)) {
      unsplit[axis].push_back(producer);
      changed = true;
    }
    whole[graph::index(producer) * axes.size() + axis] = true;
    for (const TensorId i : graph[producer].inputs) {
      if (i != TensorId::None && data_only[graph::index(i)]) open.push_back(i);
    }
  }
  return changed;
}

bool spare_gathers(ShardingTask& task, const Sharding& result) {
  bool changed = false;
  for (std::size_t n = 0; n < task.graph.nodes().size(); ++n) {
    const graph::Node& node = task.graph.nodes()[n];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorId t = node.inputs[i];
      if (t == TensorId::None || !task.data_only[graph::index(t)]) continue;
      for (std::size_t a = 0; a < task.axes.size(); ++a) {
        const AxisLayout& have = result.layout(t)[a];
        if (have.split() && result.wanted[n][i][a].replicated()) changed = task.compute_whole(result, t, a) || changed;
      }
    }
  }
  return changed;
}

}  // namespace rehearsal::plan
