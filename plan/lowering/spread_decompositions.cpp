// Matrices of second-order optimizers, each decomposed by one replica for all (Osawa et al., "Large-scale distributed second-order
// optimization using Kronecker-factored approximate curvature for deep convolutional neural networks", CVPR 2019; Pauloski et al., "KAISA:
// an adaptive second-order optimizer framework for deep neural networks", SC 2021). All have the same matrices, summed over the batch, so
// what one makes of them is to the bit what each would have made.

#include "plan/lowering/spread_decompositions.hpp"

#include <algorithm>
#include <numeric>

#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;

std::vector<int> shared_out(const std::vector<double>& work, int ranks) {
  std::vector<std::size_t> largest_first(work.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::ranges::stable_sort(largest_first, std::greater(), [&](std::size_t n) { return work[n]; });
  std::vector<double> load(static_cast<std::size_t>(ranks), 0.0);
  std::vector<int> rank_of(work.size());
  for (const auto n : largest_first) {
    const auto least = std::ranges::min_element(load);
    *least += work[n];
    rank_of[n] = static_cast<int>(least - load.begin());
  }
  const auto most = static_cast<int>(std::ranges::max_element(load) - load.begin());
  for (int& rank : rank_of) rank = rank == most ? 0 : rank == 0 ? most : rank;
  return rank_of;
}

bool decomposes(const graph::Node& node) { return graph::schema(node).family == graph::CostFamily::Decomposition; }
bool decomposes(const graph::Graph& g) {
  return std::ranges::any_of(g.nodes(), [](const graph::Node& node) { return decomposes(node); });
}

/// Of this rank, those of which all replicas have the same: what is sharded among them is shared out already.
std::vector<NodeId> RoleBuilder::decompositions_alike() const {
  const auto replicas = axis_of_replicas();
  std::vector<NodeId> alike;
  for (std::size_t index = 0; index < g_.nodes().size(); ++index) {
    const auto n = static_cast<NodeId>(index);
    if (!decomposes(g_[n]) || !body_in(n, NodesOfPass::Updates)) continue;
    const auto& layout = c_.sharding.layout(g_[n].outputs.front());
    bool whole = true;
    for (std::size_t a = 0; a < layout.size(); ++a) whole = whole && (c_.mesh_axis[a] != replicas || layout[a].replicated());
    if (whole && conversion_into_storage(g_[n].outputs.front()) < 0) alike.push_back(n);
  }
  return alike;
}

/// Nodes of the update that make their operands, and what brings these together where ranks have parts of them: all ranks do that, before
/// any decomposes.
void RoleBuilder::place_what_they_read(const std::vector<NodeId>& decompositions) {
  std::set<NodeId> read;
  const auto add_operands = [&](NodeId n) {
    for (const auto t : g_[n].inputs)
      if (t != TensorId::None && g_[t].producer != NodeId::None && body_in(g_[t].producer, NodesOfPass::Updates))
        read.insert(g_[t].producer);
  };
  for (const auto n : decompositions) add_operands(n);
  for (std::size_t n = g_.nodes().size(); n-- > 0;)
    if (read.contains(static_cast<NodeId>(n))) add_operands(static_cast<NodeId>(n));
  for (const auto n : read) {
    lower_node(n, update_);
    placed_.insert(n);
  }
  for (const auto n : decompositions)
    for (std::size_t i = 0; i < g_[n].inputs.size(); ++i)
      if (g_[n].inputs[i] != TensorId::None) (void)operand(n, i, update_);
}

/// Messages go behind all that this rank decomposes: ranks that have less to do wait for the one that has most, not for one after the
/// other.
void RoleBuilder::spread_decompositions() {
  const auto all = decompositions_alike();
  place_what_they_read(all);
  std::vector<double> work;
  for (const auto n : all) work.push_back(graph::flops_of(g_, g_[n]));
  const auto rank_of = shared_out(work, c_.program.axes[axis_of_replicas()].size);
  std::vector<std::int32_t> messages;
  for (std::size_t n = 0; n < all.size(); ++n) {
    lower_kernel(all[n], update_);
    messages.push_back(static_cast<std::int32_t>(role_.collectives.size()));
    role_.bodies[update_].instructions.back().collective = messages.back();
    auto& info = role_.collectives.emplace_back();
    info.kind = CollectiveKind::Broadcast;
    info.axis = static_cast<std::uint8_t>(axis_of_replicas());
    info.root = rank_of[n];
    info.every = static_cast<std::int32_t>(g_[all[n]].attributes.integer("interval", 1));
    placed_.insert(all[n]);
  }
  const auto last_kernel = static_cast<std::uint32_t>(role_.bodies[update_].instructions.size() - 1);
  for (std::size_t n = 0; n < all.size(); ++n) {
    broadcast(all[n], messages[n], {update_, last_kernel});
    after_production(all[n], update_);
  }
}

void RoleBuilder::broadcast(NodeId decomposition, std::int32_t collective, Dependency behind) {
  constexpr std::size_t kStep = 2;  // graph/ops/decomposition.cpp: (previous results, matrices, step, ...)
  const TensorId made = g_[decomposition].outputs.front();
  const auto vector = buffers_.at({made, -1, Format::Plain, false});
  auto& info = role_.collectives[static_cast<std::size_t>(collective)];
  info.algorithm = algorithm(info.kind, info.axis, role_.buffers[vector].bytes);
  const auto step = operand(decomposition, kStep, update_);
  auto i = instruction(InstructionKind::Collective, made, update_, {vector, step}, {vector});
  i.stream = Stream::Collective;
  i.after = {behind};
  i.collective = collective;
  during_ = During::Renewals;
  emit(update_, std::move(i));
  during_ = During::Training;
}

}  // namespace rehearsal::plan
