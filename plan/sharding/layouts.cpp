// Layouts of stored tensors, operands and results, in one topological sweep. Backward nodes take the atom that their forward node was split
// by; update nodes and sums of gradients follow the layouts of what they read.

#include <algorithm>
#include <tuple>

#include "graph/op_schema.hpp"
#include "plan/sharding/passes.hpp"
#include "plan/sharding/windows.hpp"

namespace rehearsal::plan {

using graph::AtomId;
using graph::IterDim;
using graph::NodeId;
using graph::OperandDim;
using graph::Phase;
using graph::TensorId;

namespace {

AxisLayout split_at(const OperandDim& p, std::int32_t halo) {
  AxisLayout l;
  l.kind = LayoutKind::Split;
  l.halo = halo;
  l.dim = static_cast<std::int16_t>(p.dim);
  l.factor = static_cast<std::int16_t>(p.factor);
  l.atom = p.atom;
  return l;
}

AxisLayout partial(graph::LabelKind reduction) {
  AxisLayout l;
  l.kind = LayoutKind::Partial;
  l.reduction = reduction;
  return l;
}

AxisLayout result_layout(const IterDim* way, std::size_t o) {
  if (!way) return {};
  if (const OperandDim* p = way->output(o)) return split_at(*p, 0);
  if (way->reduces()) return partial(way->kind);
  return way->kind == graph::LabelKind::Window ? partial(graph::LabelKind::Sum) : AxisLayout{};
}

bool is_stored(graph::TensorRole r) { return graph::is_weight(r) || r == graph::TensorRole::State || r == graph::TensorRole::Slot; }

class LayoutPass {
 public:
  LayoutPass(const ShardingTask& task, Sharding& result) : task_(task), graph_(task.graph), s_(result), axes_(task.axes.size()) {}

  void run() {
    s_.layouts.assign(graph_.tensors().size(), Layout(axes_));
    s_.wanted.assign(graph_.nodes().size(), {});
    settled_.assign(graph_.tensors().size(), false);
    store_as_wanted();
    for (std::size_t a = 0; a < axes_; ++a)
      if (task_.axes[a].deals_out_updates && !task_.axes[a].stores_whole) store_parameters_split(a);
    store_slots_as_parameters();
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) visit(static_cast<NodeId>(n));
    load_whole_where_needed();
  }

 private:
  const ShardingTask& task_;
  const graph::Graph& graph_;
  Sharding& s_;
  std::size_t axes_;
  std::vector<bool> settled_;  ///< [tensor]: its stored layout is fixed

  /// Parameters, states and inputs lie as all their forward readers want them, replicated on the axes where these differ.
  void store_as_wanted() {
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const auto id = static_cast<NodeId>(n);
      const graph::Node& node = graph_[id];
      if (node.phase != Phase::Forward) break;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const TensorId t = node.inputs[i];
        if (t != TensorId::None && graph_[t].producer == NodeId::None && graph_[t].role != graph::TensorRole::Constant) agree(t, id, i);
      }
    }
  }

  /// Every parameter lies where its update works on it.
  void store_parameters_split(std::size_t axis) {
    for (const auto& p : task_.training.parameters) {
      if (p.update == NodeId::None) continue;
      const int way = evenest_way(p.update, axis, stored_ways(p));
      const OperandDim* place = way < 0 ? nullptr : task_.dims.iteration(p.update)[static_cast<std::size_t>(way)].input(0);
      if (place) s_.layouts[graph::index(p.value)][axis] = split_at(*place, 0);
    }
  }

  /// Optimizer state lies as its parameter does, whatever reads it first: in 16 bits no update reads the parameter itself. Axes that
  /// shard updates shard the state with them. What a state does not have (sums of rows have no columns) it is whole along.
  void store_slots_as_parameters() {
    for (const auto& p : task_.training.parameters)
      for (const TensorId slot : p.slots)
        for (std::size_t a = 0; a < axes_; ++a) {
          const AxisLayout& own = s_.layouts[graph::index(p.value)][a];
          if (!task_.axes[a].deals_out_updates && (!own.split() || has_dimension_of(slot, p.value, own)))
            s_.layouts[graph::index(slot)][a] = own;
        }
  }

  bool has_dimension_of(TensorId slot, TensorId parameter, const AxisLayout& split) const {
    const auto &own = task_.dims.of(slot), &of = task_.dims.of(parameter);
    const auto dim = static_cast<std::size_t>(split.dim);
    return own.size() == of.size() && own[dim] == of[dim];
  }

  /// On every axis the way that the stored parameter's layout stands for.
  std::vector<const IterDim*> stored_ways(const graph::TrainedParameter& p) const {
    std::vector<const IterDim*> ways(axes_);
    for (std::size_t a = 0; a < axes_; ++a) {
      for (const IterDim& way : task_.dims.iteration(p.update)) {
        const OperandDim* place = way.input(0);
        if (place && s_.layouts[graph::index(p.value)][a] == split_at(*place, 0)) ways[a] = &way;
      }
    }
    return ways;
  }

  /// The way whose largest part is the smallest share of the whole; of equals the outermost, whose parts are ranges of memory. -1: none is
  /// possible.
  int evenest_way(NodeId id, std::size_t axis, const std::vector<const IterDim*>& chosen) const {
    const std::vector<IterDim>& ways = task_.dims.iteration(id);
    int best = -1;
    std::tuple<double, int, int> least;
    for (std::size_t w = 0; w < ways.size(); ++w) {
      const bool taken = std::find(chosen.begin(), chosen.end(), &ways[w]) != chosen.end();
      if (taken || obstacle(task_, id, axis, ways[w], chosen) != Miss::None) continue;
      const std::int64_t size = task_.dims.atoms().size(ways[w].atom), ranks = task_.axes[axis].size;
      const OperandDim* place = ways[w].input(0);
      const std::tuple now{static_cast<double>((size + ranks - 1) / ranks) / static_cast<double>(size), place ? place->dim : 0,
                           place ? place->factor : 0};
      if (best < 0 || now < least) best = static_cast<int>(w), least = now;
    }
    return best;
  }

  /// Not on running statistics, which are small, and not the optimizer's.
  bool works_on_parameter(const graph::Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](TensorId t) {
      if (t == TensorId::None || graph_[t].type.shape.empty()) return false;
      const graph::TensorRole role = graph_[t].role;
      return role == graph::TensorRole::Parameter || role == graph::TensorRole::Slot || role == graph::TensorRole::Gradient;
    });
  }

  AxisLayout operand_layout(NodeId id, const IterDim* way, std::size_t operand) const {
    const OperandDim* p = way ? way->input(operand) : nullptr;
    if (!p) return {};
    if (way->kind != graph::LabelKind::Window) return split_at(*p, 0);
    const graph::NodeTypes types(graph_, graph_[id]);
    const WindowedNode node{graph::schema(graph_[id]), types.view(), static_cast<std::size_t>(p->dim - 2)};
    return split_at(*p, halo_number(node, operand));
  }

  void agree(TensorId t, NodeId id, std::size_t operand) {
    Layout& stored = s_.layouts[graph::index(t)];
    for (std::size_t a = 0; a < axes_; ++a) {
      AxisLayout want = operand_layout(id, s_.choice(id, a), operand);
      want.halo = 0;
      if (!settled_[graph::index(t)]) {
        stored[a] = want;
      } else if (stored[a] != want) {
        stored[a] = AxisLayout{};
      }
    }
    settled_[graph::index(t)] = true;
  }

  void visit(NodeId id) {
    const graph::Node& node = graph_[id];
    if (node.phase != Phase::Forward) {
      std::vector<const IterDim*> chosen(axes_);
      // Axes that share out the update take what the others leave.
      for (const bool shares : {false, true}) {
        for (std::size_t a = 0; a < axes_; ++a) {
          if (task_.axes[a].deals_out_updates != shares) continue;
          const int way = task_.axes[a].size == 1 ? -1 : inherited(id, a, chosen);
          s_.choices[graph::index(id) * axes_ + a] = way;
          chosen[a] = s_.choice(id, a);
        }
      }
    }
    want_operands(id);
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const TensorId t = node.outputs[o];
      if (t == TensorId::None) continue;
      for (std::size_t a = 0; a < axes_; ++a) {
        s_.layouts[graph::index(t)][a] = passes_on(id, a) ? partial(graph::LabelKind::Sum) : result_layout(s_.choice(id, a), o);
      }
    }
    if (const RingNode* n = task_.in_ring(id)) pass_round(*n);
  }

  /// In a ring keys and values stay split as they lie, and so do their gradients.
  void pass_round(const RingNode& n) {
    const graph::Node& node = graph_[n.node];
    const std::size_t axis = task_.rings[static_cast<std::size_t>(task_.ring_of_node[graph::index(n.node)])].axis;
    for (std::size_t i = 0; i < n.operands.size(); ++i) {
      if (n.operands[i].role == KeyRole::Passed) s_.wanted[graph::index(n.node)][i][axis] = s_.layout(node.inputs[i])[axis];
    }
    for (std::size_t o = 0; o < n.results.size(); ++o) {
      if (n.results[o].role != KeyRole::Passed) continue;
      const AtomId keys = task_.dims.atoms().find(task_.dims.of(node.outputs[o])[static_cast<std::size_t>(n.results[o].dim)].front());
      s_.layouts[graph::index(node.outputs[o])][axis] = split_at({0, n.results[o].dim, 0, keys}, 0);
    }
  }

  void want_operands(NodeId id) {
    const graph::Node& node = graph_[id];
    std::vector<Layout>& wanted = s_.wanted[graph::index(id)];
    wanted.assign(node.inputs.size(), Layout(axes_));
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorId t = node.inputs[i];
      if (t == TensorId::None) continue;
      const bool unsettled =
          graph_[t].producer == NodeId::None && graph_[t].role != graph::TensorRole::Constant && !settled_[graph::index(t)];
      for (std::size_t a = 0; a < axes_; ++a) {
        const bool passed_on = passes_on(id, a) && (i == 0 || all_operands_sum(id));
        const IterDim* way = s_.choice(id, a);
        const bool added = way && way->kind == graph::LabelKind::Sum && static_cast<int>(i) == graph::schema(node).addend;
        wanted[i][a] = passed_on || added || normalizes_alone(id, i, a) ? partial(graph::LabelKind::Sum) : operand_layout(id, way, i);
      }
      if (unsettled) agree(t, id, i);  // optimizer state: first read by the update
    }
  }

  /// Does each coordinate of the axis use its own part of the sums, as if it were the whole?
  bool normalizes_alone(NodeId id, std::size_t operand, std::size_t axis) const {
    return task_.axes[axis].own_statistics && s_.splits_samples(id, axis) && graph::schema(graph_[id]).is_batch_statistic(operand);
  }

  /// The way that suits what is read best: most operands already lie so, and nothing reduced if there is a tie. -1: none of `ways` is
  /// possible.
  template <class Suits>
  int best_way(NodeId id, std::size_t axis, const std::vector<const IterDim*>& chosen, const Suits& suits) const {
    const std::vector<IterDim>& ways = task_.dims.iteration(id);
    int best = -1;
    int best_score = -1;
    for (std::size_t w = 0; w < ways.size(); ++w) {
      const int agreeing = agreement(id, axis, ways[w]);
      if (!suits(ways[w], agreeing) || obstacle(task_, id, axis, ways[w], chosen) != Miss::None) continue;
      const int score = 2 * agreeing + (ways[w].reduces() ? 0 : 1);
      if (score > best_score) {
        best = static_cast<int>(w);
        best_score = score;
      }
    }
    return best;
  }

  /// Operands that lie on `axis` as `way` wants them.
  int agreement(NodeId id, std::size_t axis, const IterDim& way) const {
    int count = 0;
    for (const OperandDim& p : way.inputs) {
      const AxisLayout& l = s_.layouts[graph::index(graph_[id].inputs[static_cast<std::size_t>(p.operand)])][axis];
      count += l.split() && l == split_at(p, 0);
    }
    return count;
  }

  int inherited(NodeId id, std::size_t axis, const std::vector<const IterDim*>& chosen) const {
    const graph::Node& node = graph_[id];
    if (node.phase == Phase::Backward && node.forward != NodeId::None) {
      const IterDim* before = s_.choice(node.forward, axis);
      if (!before) return -1;
      return best_way(id, axis, chosen, [&](const IterDim& way, int) { return same_axis(*before, way); });
    }
    if (node.phase == Phase::Update && task_.axes[axis].deals_out_updates && works_on_parameter(node)) return evenest_way(id, axis, chosen);
    if (node.phase == Phase::Update && reads_stored(node)) {
      return best_way(id, axis, chosen, [&](const IterDim& way, int) { return lies_stored(node, axis, way); });
    }
    return best_way(id, axis, chosen, [](const IterDim&, int agreeing) { return agreeing > 0; });
  }

  bool reads_stored(const graph::Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](TensorId t) { return t != TensorId::None && is_stored(graph_[t].role); });
  }

  /// Does a stored operand lie as `way` wants it?
  bool lies_stored(const graph::Node& node, std::size_t axis, const IterDim& way) const {
    return std::any_of(way.inputs.begin(), way.inputs.end(), [&](const OperandDim& p) {
      const TensorId t = node.inputs[static_cast<std::size_t>(p.operand)];
      return is_stored(graph_[t].role) && s_.layouts[graph::index(t)][axis] == split_at(p, 0);
    });
  }

  bool same_axis(const IterDim& before, const IterDim& way) const {
    if (before.atom == way.atom) return true;
    if (before.kind != graph::LabelKind::Window && way.kind != graph::LabelKind::Window) return false;
    return task_.dims.atoms().family(before.atom) == task_.dims.atoms().family(way.atom);
  }

  bool all_operands_sum(NodeId id) const { return graph::schema(graph_[id]).linear == graph::LinearIn::All; }

  /// May pending sums over `axis` pass through this node unresolved? Not in time: summing over micro-batches costs no message, and what
  /// follows the sum runs once instead of once per micro-batch.
  bool passes_on(NodeId id, std::size_t axis) const {
    const graph::Node& node = graph_[id];
    const auto& schema = graph::schema(node);
    if (schema.sees_parts) return reads_parts(task_, s_, id, axis);
    if (s_.choice(id, axis) || task_.axes[axis].in_time) return false;
    const auto linear = schema.linear;
    if (linear == graph::LinearIn::None) return false;
    const std::size_t count = linear == graph::LinearIn::First ? 1 : node.inputs.size();
    double in = 0, out = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const TensorId t = node.inputs[i];
      if (t == TensorId::None || task_.use_count[graph::index(t)] != 1) return false;
      if (s_.layouts[graph::index(t)][axis] != partial(graph::LabelKind::Sum)) return false;
      in += graph::size_of(graph_[t].type).value();
    }
    for (const TensorId t : node.outputs) out += t == TensorId::None ? 0 : graph::size_of(graph_[t].type).value();
    return out <= in;
  }

  /// Inputs come from the data loader: when some reader needs one whole, it is loaded whole instead of gathered.
  void load_whole_where_needed() {
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const graph::Node& node = graph_.nodes()[n];
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const TensorId t = node.inputs[i];
        if (t == TensorId::None || graph_[t].role != graph::TensorRole::Input) continue;
        Layout& loaded = s_.layouts[graph::index(t)];
        for (std::size_t a = 0; a < axes_; ++a) {
          AxisLayout want = s_.wanted[n][i][a];
          want.halo = 0;
          if (loaded[a] != want) loaded[a] = AxisLayout{};
        }
      }
    }
  }
};

}  // namespace

bool reads_parts(const ShardingTask& task, const Sharding& result, NodeId id, std::size_t axis) {
  const graph::Node& node = task.graph[id];
  const MeshAxis& of = task.axes[axis];
  const bool has_samples = of.in_time || std::ranges::find(of.dims, "batch") != of.dims.end();
  return graph::schema(node).sees_parts && has_samples &&
         result.layouts[graph::index(node.inputs[0])][axis] == partial(graph::LabelKind::Sum);
}

void lay_out(const ShardingTask& task, Sharding& result) { LayoutPass(task, result).run(); }

}  // namespace rehearsal::plan
