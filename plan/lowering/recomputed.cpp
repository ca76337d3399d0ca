// What the backward pass makes again: gathered parameters, and results that the plan does not keep.

#include <algorithm>

#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;

namespace {

/// Does a conversion make more of a tensor than its rank has, by messages that can be sent again?
bool enlarges(const Conversion& conversion) {
  const auto is = [](ConversionKind kind) { return [kind](const ConversionStep& step) { return step.kind == kind; }; };
  const auto& steps = conversion.steps;
  if (std::any_of(steps.begin(), steps.end(), is(ConversionKind::AllReduce)) ||
      std::any_of(steps.begin(), steps.end(), is(ConversionKind::ReduceScatter)))
    return false;
  return std::any_of(steps.begin(), steps.end(), is(ConversionKind::AllGather)) ||
         std::any_of(steps.begin(), steps.end(), is(ConversionKind::Halo));
}

}  // namespace

/// Parameters that were gathered for the forward pass, results that the plan drops, and with these what was gathered of kept ones: the
/// saved input of a sequence-parallel block is this rank's part of it (Korthikanti et al. 2022, section 4.2.2).
bool RoleBuilder::is_forgotten(const Key& key) const {
  const auto& tensor = g_[key.tensor];
  if (graph::is_weight(tensor.role))
    return key.conversion >= 0 && !is_gathered_once(c_.sharding.conversions[static_cast<std::size_t>(key.conversion)]);
  if (!c_.recomputation.any() || tensor.role != graph::TensorRole::Activation) return false;
  if (c_.recomputation.drops(key.tensor)) return true;
  const bool inside = tensor.producer != NodeId::None && c_.sharding.parts[graph::index(tensor.producer)] == LoopPart::Inside;
  return inside && key.conversion >= 0 && enlarges(c_.sharding.conversions[static_cast<std::size_t>(key.conversion)]);
}

void RoleBuilder::forget_for_backward() {
  std::erase_if(buffers_, [&](const auto& entry) { return is_forgotten(entry.first); });
}

/// All that is wanted of a node can be restored.
bool RoleBuilder::is_stashed(NodeId n) const {
  bool any = false;
  for (const TensorId t : g_[n].outputs) {
    if (t == TensorId::None || !c_.recomputation.drops(t)) continue;
    if (!stashes_.contains(t)) return false;
    any = true;
  }
  return any;
}

void RoleBuilder::restore_results(NodeId n, std::uint16_t body) {
  for (const TensorId t : g_[n].outputs)
    if (t != TensorId::None && stashes_.contains(t)) restore(t, body);
}

/// Runs again what leads to `t` from what is there, in the order of the forward pass.
void RoleBuilder::recompute(TensorId t, std::uint16_t body) {
  std::set<NodeId> nodes;
  std::vector<NodeId> open{g_[t].producer};
  while (!open.empty()) {
    const NodeId n = open.back();
    open.pop_back();
    if (!nodes.insert(n).second || is_stashed(n)) continue;
    const auto want = [&](NodeId reader) {
      for (const TensorId u : g_[reader].inputs)
        if (u != TensorId::None && c_.recomputation.drops(u) && lies_at(u) == kNoBuffer) open.push_back(g_[u].producer);
    };
    want(n);
    if (const AttentionRing* ring = c_.sharding.ring_of(n))
      for (const RingNode& r : ring->forward) want(r.node);
    if (const FusedAttention* fused = c_.sharding.fused_at(n))
      for (const NodeId r : fused->forward) want(r);
  }
  const bool before = again_;
  again_ = true;
  for (const NodeId n : nodes)
    if (is_stashed(n))
      restore_results(n, body);
    else if (const AttentionRing* ring = c_.sharding.ring_of(n))
      attend_in_ring(*ring, body);
    else if (const FusedAttention* fused = c_.sharding.fused_at(n))
      attend_at_once(*fused, body);
    else if (graph::has(graph::schema(g_[n]).traits, graph::Trait::View))
      lower_view(n, body);
    else
      lower_kernel(n, body);
  again_ = before;
}

}  // namespace rehearsal::plan
