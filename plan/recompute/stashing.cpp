#include "plan/recompute/stashing.hpp"

#include <algorithm>

#include "graph/op_schema.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;

namespace {

/// Does the backward pass only ask where the result of a ReLU is positive? What it computes again it computes from values.
std::vector<bool> only_signs_read(const ForwardResults& results, const Recomputation& recomputation) {
  const auto& g = results.graph();
  std::vector<bool> only(g.tensors().size(), false);
  for (std::size_t t = 0; t < only.size(); ++t) {
    const NodeId producer = g.tensors()[t].producer;
    only[t] = producer != NodeId::None && graph::schema(g[producer]).name == "Relu";
  }
  const auto made_again = [&](const graph::Node& node) {
    return node.phase == graph::Phase::Forward && std::any_of(node.outputs.begin(), node.outputs.end(), [&](TensorId t) {
             return t != TensorId::None && (recomputation.drops(t) || recomputation.drops(results.root(t)));
           });
  };
  for (const auto& node : g.nodes()) {
    if (node.phase != graph::Phase::Backward && !made_again(node)) continue;
    const bool is_gradient = graph::schema(node).name == "ReluGrad";
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] != TensorId::None && !(is_gradient && i == 1 && results.root(node.inputs[i]) == node.inputs[i]))
        only[graph::index(results.root(node.inputs[i]))] = false;
  }
  return only;
}

/// Results of ReLUs, and what dropout leaves of them.
std::vector<bool> full_of_zeros(const ForwardResults& results) {
  const auto& g = results.graph();
  std::vector<bool> zeros(g.tensors().size(), false);
  for (const auto& node : g.nodes()) {
    const auto& row = graph::schema(node);
    if (row.name == "Relu") zeros[graph::index(node.outputs.front())] = true;
    if (graph::has(row.traits, graph::Trait::TrainingOnly))
      zeros[graph::index(node.outputs.front())] = zeros[graph::index(results.root(node.inputs.front()))];
  }
  return zeros;
}

struct StashedResult {
  bool only_signs, zeros;
  DType type;
};

StashKind kind_for(const Plan& plan, const StashedResult& result) {
  const auto& [only_signs, zeros, type] = result;
  const auto rule = plan.compression.rule;
  if (plan.offload == Offload::Activations) return StashKind::Host;
  if (!plan.compression.of_results()) return StashKind::None;
  if (only_signs) return StashKind::Signs;
  if (plan.compression.sparse()) return zeros && is_float(type) ? StashKind::Sparse : StashKind::None;
  if (!is_float(type) || size_of(type) <= 2) return StashKind::None;
  return rule == CompressionRule::GistF16 ? StashKind::F16 : rule == CompressionRule::GistBF16 ? StashKind::BF16 : StashKind::None;
}

}  // namespace

Stashing stashing_of(const Plan& plan, const ForwardResults& results, const Sharding& sharding, const Recomputation& recomputation) {
  Stashing stashing;
  if (plan.offload != Offload::Activations && !plan.compression.of_results()) return stashing;
  const auto& g = results.graph();
  stashing.kinds.assign(g.tensors().size(), StashKind::None);
  const auto only_signs = only_signs_read(results, recomputation), zeros = full_of_zeros(results);
  std::vector<std::pair<NodeId, TensorId>> last_uses;
  for (std::size_t t = 0; t < g.tensors().size(); ++t) {
    const auto id = static_cast<TensorId>(t);
    if (results.root(id) != id || !results.can_drop(id) || !results.is_saved(id) || recomputation.drops(id)) continue;
    const auto& layout = sharding.layout(id);
    // Sums over ranks are taken in place: what is in memory then is no longer what was made.
    if (std::any_of(layout.begin(), layout.end(), [](const AxisLayout& l) { return l.partial(); })) continue;
    const auto kind = kind_for(plan, {only_signs[t], zeros[t], g[id].type.dtype});
    if (kind == StashKind::None) continue;
    stashing.kinds[t] = kind;
    const NodeId reader = results.last_readers()[t];
    last_uses.emplace_back(std::max(reader, g[id].producer), id);
  }
  std::sort(last_uses.begin(), last_uses.end());
  for (const auto& [node, tensor] : last_uses) stashing.in_order.push_back(tensor);
  return stashing;
}

}  // namespace rehearsal::plan
