// Regions and attributes of nodes whose windows are cut into blocks, or that take statistics of a part of the batch.

#include <cmath>

#include "plan/sharding/copies.hpp"
#include "plan/sharding/sharding.hpp"
#include "plan/sharding/windows.hpp"

namespace rehearsal::plan {

using graph::IterDim;
using graph::NodeId;
using graph::OperandDim;

namespace {

constexpr int kFirstSpatial = 2;

/// Calls visit(node with global types, block of the anchor) where the node's window is cut on this axis.
template <class Visit>
void with_window(const Sharding& s, NodeId id, std::size_t axis, std::int64_t coordinate, const Visit& visit) {
  const IterDim* way = s.choice(id, axis);
  if (!way || way->kind != graph::LabelKind::Window) return;
  const graph::Graph& g = s.dims->graph();
  const graph::NodeTypes types(g, g[id]);
  const auto spatial = static_cast<std::size_t>(way->inputs.front().dim - kFirstSpatial);
  const WindowedNode node{graph::schema(g[id]), types.view(), spatial};
  const WindowAnchor anchor = anchor_of(node);
  const OperandDim* place = anchor.result ? way->output(0) : way->input(anchor.operand);
  visit(node, block(s.dims->atoms().size(place->atom), s.axes[axis].size, coordinate));
}

}  // namespace

Region Sharding::operand_region(NodeId id, std::size_t operand, const Layout& layout, const Coordinates& at) const {
  Region all = region(dims->of_operand(id, operand), layout, at);
  for (std::size_t a = 0; a < layout.size(); ++a) {
    if (!layout[a].halo) continue;
    with_window(*this, id, a, at[a], [&](const WindowedNode& node, Range mine) {
      all[static_cast<std::size_t>(layout[a].dim)] = {rows_needed(node, operand, mine)};
    });
  }
  return all;
}

graph::Shape Sharding::operand_shape(NodeId node, std::size_t operand, const Coordinates& at) const {
  graph::Shape shape;
  for (const IndexSet& set : operand_region(node, operand, wanted[graph::index(node)][operand], at)) shape.push_back(count_of(set));
  return shape;
}

namespace {

/// The part of the batch over which a node takes its statistics at a coordinate.
double share_of_statistics(const Sharding& s, NodeId id, const Coordinates& at) {
  const graph::Node& node = s.dims->graph()[id];
  if (!graph::schema(node).is_batch_statistic(1)) return 1;
  Layout own(s.axes.size());
  for (std::size_t a = 0; a < s.axes.size(); ++a)
    if (s.axes[a].own_statistics && s.splits_samples(id, a)) own[a] = s.wanted[graph::index(id)][0][a];
  const auto samples = s.shape(s.dims->of_operand(id, 0), own, at).front();
  return static_cast<double>(samples) / static_cast<double>(s.dims->graph()[node.inputs[0]].type.shape.front());
}

}  // namespace

std::optional<graph::Attributes> Sharding::attributes_on(NodeId id, const Coordinates& at) const {
  std::optional<graph::Attributes> changed;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    with_window(*this, id, a, at[a], [&](const WindowedNode& node, Range mine) {
      // Several axes of one window: each changes its own entries of what the ones before it left.
      const graph::Attributes now = changed ? *changed : dims->graph()[id].attributes;
      const graph::Attributes alone = local_attributes(node, mine, dims->graph()[id].attributes);
      changed = merged_windows(now, alone, node.axis);
    });
  }
  if (const auto share = share_of_statistics(*this, id, at); share != 1) {
    if (!changed) changed = dims->graph()[id].attributes;
    changed->set("count", static_cast<std::int64_t>(std::llround(share * static_cast<double>(changed->integer("count", 0)))));
  }
  return changed;
}

}  // namespace rehearsal::plan
