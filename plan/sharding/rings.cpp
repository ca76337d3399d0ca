// Attention that can be computed block of keys by block of keys, while the blocks go round the ranks (Liu et al. 2023, "Ring Attention").
// Found by what nodes do with the dimension of the keys: a product makes scores of rows and keys, element-wise nodes change them, softmax
// runs along the keys, what follows is linear in its weights, and a product sums over the keys. The backward nodes are those that read any
// of that.

#include <algorithm>
#include <map>
#include <set>

#include "graph/op_schema.hpp"
#include "graph/ops/axes.hpp"
#include "plan/sharding/masks.hpp"
#include "plan/sharding/passes.hpp"

namespace rehearsal::plan {

using graph::AttentionPart;
using graph::IterDim;
using graph::NodeId;
using graph::OperandDim;
using graph::Phase;
using graph::TensorId;

namespace {

/// Why attention is no ring.
struct RingsObstacle {
  std::string reason;
};

class RingFinder {
 public:
  RingFinder(const ShardingTask& task, const Sharding& s, std::size_t axis, const std::vector<std::vector<NodeId>>& consumers)
      : task_(task), g_(task.graph), s_(s), consumers_(consumers), axis_(axis) {}

  /// False: no keys are gathered for this softmax. Throws RingsObstacle.
  bool find(NodeId softmax) {
    ring_.axis = axis_;
    ring_.softmax = softmax;
    const graph::NodeTypes types(g_, g_[softmax]);
    const auto dim = static_cast<int>(graph::axis_of(types.view(), -1));
    std::set<NodeId> products;
    find_products(g_[softmax].inputs[0], dim, products);
    if (products.empty()) return false;
    if (products.size() > 1) throw RingsObstacle{"several products make its scores"};
    if (dim + 1 != static_cast<int>(g_[g_[softmax].inputs[0]].type.shape.size()))
      throw RingsObstacle{"the keys are not the last dimension"};
    ring_.keys = g_[g_[softmax].inputs[0]].type.shape.back();
    add_forward(*products.begin());
    while (!open_.empty()) add_forward(*open_.begin());
    if (ring_.result == TensorId::None) throw RingsObstacle{"no product sums over its keys"};
    for (const RingNode& n : ring_.forward)
      for (const NodeId reader : backward_readers(n)) open_.insert(reader);
    while (!open_.empty()) add_backward(*open_.begin());
    check_reach();
    check_travellers();
    return true;
  }
  [[nodiscard]] AttentionRing& ring() { return ring_; }

 private:
  [[nodiscard]] std::string_view op(NodeId n) const { return graph::schema(g_[n]).name; }
  [[nodiscard]] bool is(NodeId n, AttentionPart part) const { return graph::schema(g_[n]).in_attention == part; }
  [[nodiscard]] bool is_elementwise(NodeId n) const { return graph::has(graph::schema(g_[n]).traits, graph::Trait::Elementwise); }
  [[nodiscard]] std::string named(NodeId n) const { return std::string(op(n)) + " " + g_[n].name; }

  /// The way to split a node that passes through a dimension of an operand (or result), where that has no other factors.
  [[nodiscard]] const IterDim* way_at(NodeId n, std::size_t which, int dim, bool result) const {
    const auto& dims = result ? task_.dims.of(g_[n].outputs[which]) : task_.dims.of_operand(n, which);
    if (dims[static_cast<std::size_t>(dim)].size() != 1) return nullptr;
    for (const IterDim& way : task_.dims.iteration(n)) {
      const OperandDim* p = result ? way.output(which) : way.input(which);
      if (p && p->dim == dim) return &way;
    }
    return nullptr;
  }

  /// The tensor lies split by this dimension on the axis.
  [[nodiscard]] bool lies_split(TensorId t, int dim) const {
    const AxisLayout& l = s_.layout(t)[axis_];
    return l.split() && l.dim == dim;
  }

  /// Products that gather an operand on the axis to make scores of all keys.
  void find_products(TensorId scores, int dim, std::set<NodeId>& found) const {
    const NodeId n = g_[scores].producer;
    if (n == NodeId::None || g_[n].phase != Phase::Forward || (!is(n, AttentionPart::Product) && !is_elementwise(n))) return;
    const IterDim* way = way_at(n, 0, dim, true);
    if (!way) return;
    for (const OperandDim& p : way->inputs) {
      const auto i = static_cast<std::size_t>(p.operand);
      if (is_elementwise(n))
        find_products(g_[n].inputs[i], p.dim, found);
      else if (lies_split(g_[n].inputs[i], p.dim) && s_.wanted[graph::index(n)][i][axis_].replicated())
        found.insert(n);
    }
  }

  [[nodiscard]] int keys_of(TensorId t) const {
    const auto at = inside_.find(t);
    return at == inside_.end() ? -1 : at->second;
  }

  /// The way along the keys, on which all operands from inside agree.
  [[nodiscard]] const IterDim* way_of(NodeId n) const {
    const IterDim* way = nullptr;
    for (std::size_t i = 0; i < g_[n].inputs.size(); ++i) {
      const int dim = g_[n].inputs[i] == TensorId::None ? -1 : keys_of(g_[n].inputs[i]);
      if (dim < 0) continue;
      const IterDim* mine = way_at(n, i, dim, false);
      if (!mine || (way && mine != way)) throw RingsObstacle{named(n) + " needs all keys at once"};
      way = mine;
    }
    return way;
  }

  [[nodiscard]] KeyUse use_of(NodeId n, std::size_t i, const IterDim* way) const {
    const TensorId t = g_[n].inputs[i];
    const OperandDim* p = t == TensorId::None || !way ? nullptr : way->input(i);
    if (!p) return {};
    const auto dim = static_cast<std::int16_t>(p->dim);
    if (keys_of(t) >= 0) return {KeyRole::Inside, dim};
    for (std::size_t a = 0; a < task_.axes.size(); ++a) {
      const AxisLayout& l = s_.wanted[graph::index(n)][i][a];
      if (l.split() && l.dim == dim) throw RingsObstacle{g_[t].name + " has its keys split by " + task_.axes[a].name};
    }
    return {lies_split(t, dim) ? KeyRole::Passed : KeyRole::Cut, dim};
  }

  [[nodiscard]] RingNode described(NodeId n, const IterDim* way) const {
    RingNode node{n, {}, std::vector<KeyUse>(g_[n].outputs.size())};
    for (std::size_t i = 0; i < g_[n].inputs.size(); ++i) node.operands.push_back(use_of(n, i, way));
    if (!s_.choice(n, axis_)) throw RingsObstacle{named(n) + " is not split by " + task_.axes[axis_].name};
    return node;
  }

  void put_inside(RingNode& node, std::size_t o, int dim) {
    const TensorId t = g_[node.node].outputs[o];
    for (std::size_t a = 0; a < task_.axes.size(); ++a) {
      const AxisLayout& l = s_.layout(t)[a];
      if (l.partial() || (a == axis_ && !l.split()) || (l.split() && l.dim == dim))
        throw RingsObstacle{g_[t].name + " lies otherwise on " + task_.axes[a].name + " than the rows of attention"};
    }
    inside_[t] = dim;
    node.results[o] = {KeyRole::Inside, static_cast<std::int16_t>(dim)};
    for (const NodeId reader : consumers_[graph::index(t)])
      if (g_[reader].phase == g_[node.node].phase) open_.insert(reader);
  }

  /// Weights times a factor: what is linear in them commutes with the factors by which parts of a result are merged.
  [[nodiscard]] bool is_linear(NodeId n) const {
    const auto& inputs = g_[n].inputs;
    if (is(n, AttentionPart::Choice)) return guards_empty_rows(n);
    const graph::OpSchema& row = graph::schema(g_[n]);
    const bool scales = row.linear == graph::LinearIn::First && graph::has(row.traits, graph::Trait::Elementwise);
    const bool linear = scales || graph::has(row.traits, graph::Trait::TrainingOnly) || graph::has(row.traits, graph::Trait::SameValues);
    if (op(n) != "IsNaN" && !linear) return false;
    return std::none_of(inputs.begin(), inputs.end(), [&](TensorId t) { return is_flag(t); });
  }

  /// Where weights are no numbers.
  [[nodiscard]] bool is_flag(TensorId t) const {
    return weights_.contains(t) && g_[t].producer != NodeId::None && op(g_[t].producer) == "IsNaN";
  }

  /// Zero in place of weights that are no numbers, since their row sees no key: the weights of a block are zero there by themselves.
  [[nodiscard]] bool guards_empty_rows(NodeId n) const {
    const auto& inputs = g_[n].inputs;
    return is_flag(inputs[0]) && g_[g_[inputs[0]].producer].inputs[0] == inputs[2] && graph::number_of(g_[inputs[1]]) == 0;
  }

  void add_forward(NodeId n) {
    open_.erase(n);
    if (ring_.forward.empty()) {
      const IterDim* way = way_at(n, 0, static_cast<int>(g_[g_[n].outputs[0]].type.shape.size()) - 1, true);
      RingNode node = described(n, way);
      put_inside(node, 0, way->output(0)->dim);
      ring_.forward.push_back(std::move(node));
      return;
    }
    const bool weighs = std::any_of(g_[n].inputs.begin(), g_[n].inputs.end(), [&](TensorId t) { return weights_.contains(t); });
    if (n == ring_.softmax) return add_softmax(n, ring_.forward);
    const IterDim* way = way_of(n);
    RingNode node = described(n, way);
    if (weighs && is(n, AttentionPart::Product) && way->kind == graph::LabelKind::Sum) return add_output(std::move(node));
    if (weighs ? !is_linear(n) : !is_elementwise(n))
      throw RingsObstacle{named(n) + (weighs ? " is not known to be linear in the weights" : " reads the scores")};
    put_inside(node, 0, way->output(0)->dim);
    if (weighs) weights_.insert(g_[n].outputs[0]);
    ring_.forward.push_back(std::move(node));
  }

  void add_softmax(NodeId n, std::vector<RingNode>& nodes) {
    const int dim = keys_of(g_[n].inputs[n == ring_.softmax ? 0 : 1]);
    RingNode node{n, {}, {{}}};
    for (const TensorId t : g_[n].inputs) {
      if (keys_of(t) != dim) throw RingsObstacle{named(n) + " reads a tensor that is not made block by block"};
      node.operands.push_back({KeyRole::Inside, static_cast<std::int16_t>(dim)});
    }
    put_inside(node, 0, dim);
    if (n == ring_.softmax) weights_.insert(g_[n].outputs[0]);
    nodes.push_back(std::move(node));
  }

  void add_output(RingNode node) {
    const graph::Node& output = g_[node.node];
    const graph::Shape& weights = g_[output.inputs[0]].type.shape;
    graph::Shape expected = weights;
    expected.back() = g_[output.outputs[0]].type.shape.back();
    if (ring_.result != TensorId::None) throw RingsObstacle{"several products sum over its keys"};
    if (node.operands[0].role != KeyRole::Inside || node.operands[0].dim + 1 != static_cast<int>(weights.size()) ||
        g_[output.outputs[0]].type.shape != expected)
      throw RingsObstacle{named(node.node) + " turns its rows"};
    if (node.operands[1].role != KeyRole::Passed) throw RingsObstacle{g_[output.inputs[1]].name + " does not lie split by its keys"};
    for (const AxisLayout& l : s_.layout(output.outputs[0]))
      if (l.partial()) throw RingsObstacle{named(node.node) + " leaves a sum over ranks"};
    ring_.result = output.outputs[0];
    ring_.forward.push_back(std::move(node));
  }

  /// Backward nodes that read what a forward node makes for a block, or values beside the gradient of the result.
  [[nodiscard]] std::vector<NodeId> backward_readers(const RingNode& n) const {
    std::vector<NodeId> readers;
    const auto add = [&](TensorId t, bool all) {
      for (const NodeId reader : consumers_[graph::index(t)])
        if (g_[reader].phase == Phase::Backward && (all || g_[reader].forward == n.node)) readers.push_back(reader);
    };
    const graph::Node& node = g_[n.node];
    if (node.outputs[0] != ring_.result) add(node.outputs[0], true);
    if (node.outputs[0] == ring_.result) add(node.inputs[1], false);
    return readers;
  }

  void add_backward(NodeId n) {
    open_.erase(n);
    if (op(n) == "SoftmaxGrad" && g_[n].forward == ring_.softmax) {
      ring_.softmax_gradient = n;
      return add_softmax(n, ring_.backward);
    }
    const IterDim* way = way_of(n);
    if (!way) way = opening_way(n);
    RingNode node = described(n, way);
    const bool sums_rows = s_.choice(n, axis_)->reduces();
    for (std::size_t o = 0; o < g_[n].outputs.size(); ++o) {
      const TensorId t = g_[n].outputs[o];
      if (t == TensorId::None) continue;
      const auto& parameters = task_.training.parameters;
      if (std::any_of(parameters.begin(), parameters.end(), [&](const auto& q) { return q.gradient == t; }))
        throw RingsObstacle{g_[t].name + " is the gradient of a parameter"};
      const OperandDim* p = way->output(o);
      if (!p && way->kind != graph::LabelKind::Sum) throw RingsObstacle{named(n) + " needs all keys at once"};
      if (!p) continue;
      if (sums_rows)
        pass_gradient(node, o, p->dim);
      else
        put_inside(node, o, p->dim);
    }
    ring_.backward.push_back(std::move(node));
  }

  /// Of keys or values: its blocks go round, and every rank adds what its rows contribute.
  void pass_gradient(RingNode& node, std::size_t o, int dim) const {
    const TensorId t = g_[node.node].outputs[o];
    if (task_.dims.of(t)[static_cast<std::size_t>(dim)].size() != 1) throw RingsObstacle{g_[t].name + " has keys of several factors"};
    for (std::size_t a = 0; a < task_.axes.size(); ++a)
      if (s_.layout(t)[a].split() && s_.layout(t)[a].dim == dim)
        throw RingsObstacle{g_[t].name + " has its keys split by " + task_.axes[a].name};
    node.results[o] = {KeyRole::Passed, static_cast<std::int16_t>(dim)};
  }

  /// Of the gradient of the weights: gradient of the result times values.
  [[nodiscard]] const IterDim* opening_way(NodeId n) {
    const graph::Node& node = g_[n];
    const TensorId values = g_[ring_.forward.back().node].inputs[1];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == values || !is(n, AttentionPart::Product)) continue;
      ring_.result_gradient = node.inputs[i];
      if (s_.wanted[graph::index(n)][i] != s_.layout(ring_.result) || g_[node.inputs[i]].type.shape != g_[ring_.result].type.shape) break;
      const IterDim* way = way_at(n, 0, static_cast<int>(g_[node.outputs[0]].type.shape.size()) - 1, true);
      if (way && way->input(1 - i) && g_[node.outputs[0]].type.shape.back() == ring_.keys) return way;
    }
    throw RingsObstacle{named(n) + " reads the values in another way than a product with the gradient of the result"};
  }

  /// A tensor goes round once, for all nodes that read it.
  void check_travellers() const {
    std::map<TensorId, Layout> layouts;
    for (const auto* nodes : {&ring_.forward, &ring_.backward})
      for (const RingNode& n : *nodes)
        for (std::size_t i = 0; i < n.operands.size(); ++i) {
          if (n.operands[i].role != KeyRole::Passed) continue;
          const TensorId t = g_[n.node].inputs[i];
          const Layout& wanted = s_.wanted[graph::index(n.node)][i];
          if (layouts.try_emplace(t, wanted).first->second != wanted) throw RingsObstacle{g_[t].name + " is wanted in several layouts"};
        }
  }

  /// Nobody outside may want what is made block by block, and all that comes from outside must be there when the ring begins.
  void check_reach() const {
    if (!ring_.backward.empty() && (ring_.softmax_gradient == NodeId::None || ring_.result_gradient == TensorId::None))
      throw RingsObstacle{"its gradient is not made of the gradients of its nodes"};
    std::set<NodeId> all;
    for (const auto* nodes : {&ring_.forward, &ring_.backward})
      for (const RingNode& n : *nodes) all.insert(n.node);
    for (const auto& [t, dim] : inside_) {
      for (const NodeId reader : consumers_[graph::index(t)])
        if (!all.contains(reader)) throw RingsObstacle{named(reader) + " reads " + g_[t].name};
      if (std::find(g_.outputs().begin(), g_.outputs().end(), t) != g_.outputs().end()) throw RingsObstacle{g_[t].name + " is an output"};
    }
    for (const RingNode& n : ring_.backward)
      for (const TensorId t : g_[n.node].inputs) {
        if (t == TensorId::None || g_[t].producer == NodeId::None || all.contains(g_[t].producer)) continue;
        if (g_[t].producer > ring_.backward.front().node) throw RingsObstacle{named(n.node) + " waits for " + g_[t].name};
      }
  }

  const ShardingTask& task_;
  const graph::Graph& g_;
  const Sharding& s_;
  const std::vector<std::vector<NodeId>>& consumers_;
  std::size_t axis_;
  AttentionRing ring_;
  std::map<TensorId, int> inside_;  ///< made block by block: the dimension of the keys
  std::set<TensorId> weights_;      ///< of these, from the softmax on
  std::set<NodeId> open_;
};

}  // namespace

bool find_rings(ShardingTask& task, Sharding& result) {
  result.no_rings.clear();
  task.rings.clear();
  task.ring_of_node.clear();
  std::vector<std::vector<NodeId>> consumers;
  ConstantMasks masks(task.graph);
  for (std::size_t a = 0; a < task.axes.size(); ++a) {
    if (!task.axes[a].ring || task.axes[a].size == 1) continue;
    if (consumers.empty()) consumers = task.graph.consumers();
    for (std::size_t n = 0; n < task.graph.nodes().size(); ++n) {
      const auto id = static_cast<NodeId>(n);
      if (task.graph[id].phase != Phase::Forward) break;
      if (graph::schema(task.graph[id]).in_attention != AttentionPart::Softmax) continue;
      RingFinder finder(task, result, a, consumers);
      try {
        if (!finder.find(id)) continue;
        finder.ring().masked = masks.masked_blocks(result, finder.ring());
        task.rings.push_back(std::move(finder.ring()));
      } catch (const RingsObstacle& obstacle) {
        result.no_rings.push_back({id, obstacle.reason});
      }
    }
  }
  if (task.rings.empty()) return false;
  task.ring_of_node.assign(task.graph.nodes().size(), -1);
  for (std::size_t r = 0; r < task.rings.size(); ++r)
    for (const auto* nodes : {&task.rings[r].forward, &task.rings[r].backward})
      for (const RingNode& n : *nodes) task.ring_of_node[graph::index(n.node)] = static_cast<std::int32_t>(r);
  return true;
}

}  // namespace rehearsal::plan
