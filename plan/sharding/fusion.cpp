// A softmax along keys between two products: from it upwards the steps of the scores to the product of queries and keys, downwards a guard
// of empty rows and dropout to the product with values; then the gradient's nodes, which undo these one by one.

#include "plan/sharding/fusion.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>

#include "graph/op_schema.hpp"
#include "graph/ops/attention.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::plan {

using graph::AttentionPart;
using graph::AttentionStep;
using graph::NodeId;
using graph::Phase;
using graph::TensorId;

namespace {

using Kind = AttentionStep::Kind;

/// Why attention stays several nodes.
struct FusionObstacle {
  std::string reason;
};

class KernelFinder {
 public:
  KernelFinder(const graph::TrainingGraph& training, const Sharding& s, const std::vector<std::vector<NodeId>>& consumers)
      : g_(training.graph), s_(s), consumers_(consumers) {}

  /// False: the softmax does not stand between two products. Throws FusionObstacle.
  bool find(NodeId softmax) {
    const graph::NodeTypes types(g_, g_[softmax]);
    const TensorId first = g_[softmax].inputs[0];
    if (!leads_to_product(first)) return false;
    find_weighing(softmax);
    if (output_ == NodeId::None) return false;
    if (graph::axis_of(types.view(), -1) + 1 != g_[first].type.shape.size()) throw FusionObstacle{"the keys are not the last dimension"};
    find_steps(first);
    if (row_flags_ != TensorId::None) throw FusionObstacle{g_[row_flags_].name + " hides rows behind the softmax alone"};
    forward_.push_back(softmax);
    forward_.insert(forward_.end(), weighing_.begin(), weighing_.end());
    check_products();
    find_gradient(softmax);
    gather();
    check_reach();
    check_layouts();
    return true;
  }
  [[nodiscard]] FusedAttention& result() { return result_; }

 private:
  struct Step {
    NodeId node;
    AttentionStep what;
    std::size_t other = 0;  ///< operand of the node that the step reads
  };

  [[nodiscard]] std::string_view op(NodeId n) const { return graph::schema(g_[n]).name; }
  [[nodiscard]] bool is(NodeId n, AttentionPart part) const { return graph::schema(g_[n]).in_attention == part; }
  [[nodiscard]] std::string named(NodeId n) const { return std::string(op(n)) + " " + g_[n].name; }
  [[nodiscard]] const graph::Shape& shape(TensorId t) const { return g_[t].type.shape; }
  [[nodiscard]] bool same_type(TensorId a, TensorId b) const { return g_[a].type == g_[b].type; }
  [[nodiscard]] bool changes_nothing(NodeId n) const {
    return graph::has(graph::schema(g_[n]).traits, graph::Trait::SameValues) && same_type(g_[n].inputs[0], g_[n].outputs[0]);
  }

  [[nodiscard]] std::vector<NodeId> readers(TensorId t, Phase phase) const {
    std::vector<NodeId> found;
    for (const NodeId n : consumers_[graph::index(t)])
      if (g_[n].phase == phase && std::find(found.begin(), found.end(), n) == found.end()) found.push_back(n);
    return found;
  }

  // ---- forward

  /// Through element-wise nodes that leave the shape.
  [[nodiscard]] bool leads_to_product(TensorId t) const {
    const NodeId n = g_[t].producer;
    if (n == NodeId::None || g_[n].phase != Phase::Forward) return false;
    if (is(n, AttentionPart::Product)) return true;
    if (!graph::has(graph::schema(g_[n]).traits, graph::Trait::Elementwise)) return false;
    return std::any_of(g_[n].inputs.begin(), g_[n].inputs.end(),
                       [&](TensorId i) { return i != TensorId::None && shape(i) == shape(t) && leads_to_product(i); });
  }

  /// Upwards from the softmax; then they stand in forward_ in order, the product first.
  void find_steps(TensorId scores) {
    NodeId n = g_[scores].producer;
    for (; !is(n, AttentionPart::Product); n = g_[scores].producer) {
      forward_.insert(forward_.begin(), n);
      const auto inside = inside_operand(n);
      if (is_hidden_row_step(n))
        add_row_flags(n);
      else if (!changes_nothing(n))
        steps_.insert(steps_.begin(), step_of(n, inside));
      scores = g_[n].inputs[inside];
    }
    forward_.insert(forward_.begin(), n);
  }

  /// A number instead of scores of rows that see no key, where their weights are 0 behind the softmax.
  [[nodiscard]] bool is_hidden_row_step(NodeId n) const {
    return row_flags_ != TensorId::None && is(n, AttentionPart::Choice) && g_[n].inputs[0] == row_flags_;
  }

  /// The flags come from just these scores: all -infinity.
  void add_row_flags(NodeId n) {
    const NodeId equal = g_[row_flags_].producer, largest = g_[g_[equal].inputs[0]].producer;
    if (g_[largest].inputs[0] != g_[n].inputs[2]) throw FusionObstacle{named(n) + " looks at other scores"};
    forward_.insert(forward_.begin(), {largest, equal});
    row_flags_ = TensorId::None;
  }

  /// Equal(ReduceMax(scores), -infinity) along the last dimension.
  [[nodiscard]] bool flags_hidden_rows(TensorId t) const {
    const NodeId equal = g_[t].producer;
    if (equal == NodeId::None || op(equal) != "Equal" || !is_number(g_[equal].inputs[1], -std::numeric_limits<double>::infinity()))
      return false;
    const NodeId largest = g_[g_[equal].inputs[0]].producer;
    if (largest == NodeId::None || op(largest) != "ReduceMax") return false;
    graph::Shape rows = shape(g_[largest].inputs[0]);
    rows.back() = 1;
    return shape(t) == rows;
  }

  [[nodiscard]] bool is_number(TensorId t, double value) const { return graph::number_of(g_[t]) == value; }

  [[nodiscard]] std::size_t inside_operand(NodeId n) const {
    const auto& inputs = g_[n].inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] != TensorId::None && same_type(inputs[i], g_[n].outputs[0]) && leads_to_product(inputs[i])) return i;
    throw FusionObstacle{named(n) + " changes the type of the scores"};
  }

  [[nodiscard]] Step step_of(NodeId n, std::size_t inside) const {
    const auto& inputs = g_[n].inputs;
    const std::size_t other = 1 - std::min<std::size_t>(inside, 1);
    if (op(n) == "Scale") return {n, {Kind::Scale, g_[n].attributes.number("factor", 1.0), -1, false}};
    if (op(n) == "Add" && shape(inputs[other]) != shape(inputs[inside])) return {n, {Kind::Add, 0, 0, false}, other};
    if (op(n) == "Add" && !leads_to_product(inputs[other])) return {n, {Kind::Add, 0, 0, false}, other};
    if (op(n) == "Mul") return {n, {Kind::Scale, number(n, other), -1, false}};
    if (op(n) == "Div" && inside == 0) return {n, {Kind::Divide, number(n, other), -1, false}};
    if (is(n, AttentionPart::Choice) && inside > 0)
      return {n, {inside == 1 ? Kind::HideElse : Kind::HideWhere, number(n, 3 - inside), 0, false}, 0};
    throw FusionObstacle{named(n) + " is no scale and no mask of the scores"};
  }

  /// The value of an operand that is one known number.
  [[nodiscard]] double number(NodeId n, std::size_t operand) const {
    const graph::Tensor& t = g_[g_[n].inputs[operand]];
    const auto known = graph::number_of(t);
    if (!known) throw FusionObstacle{named(n) + " reads " + t.name + ", which is no known number"};
    return *known;
  }

  /// Downwards from the softmax to the product with values.
  void find_weighing(NodeId softmax) {
    TensorId weights = g_[softmax].outputs[0];
    for (;;) {
      const auto next = readers(weights, Phase::Forward);
      if (next.size() == 2 && guards_empty_rows(next, weights)) {
        weighing_.insert(weighing_.end(), next.begin(), next.end());
        result_.attributes.set("guarded", std::int64_t{1});
        weights = g_[next[1]].outputs[0];
        continue;
      }
      if (next.size() != 1) return;
      weighing_.push_back(next[0]);
      if (is(next[0], AttentionPart::Product) && g_[next[0]].inputs[0] == weights) return void(output_ = next[0]);
      if (graph::has(graph::schema(g_[next[0]]).traits, graph::Trait::TrainingOnly) && !result_.attributes.has("stream")) {
        for (const std::string_view key : {"ratio", "stream"})
          if (const auto* value = g_[next[0]].attributes.find(key)) result_.attributes.set(key, *value);
      } else if (is(next[0], AttentionPart::Choice) && is_number(g_[next[0]].inputs[1], 0) && flags_hidden_rows(g_[next[0]].inputs[0])) {
        row_flags_ = g_[next[0]].inputs[0];
        result_.attributes.set("guarded", std::int64_t{2});
      } else if (!changes_nothing(next[0])) {
        return;
      }
      weights = g_[next[0]].outputs[0];
    }
  }

  /// Where(IsNaN(weights), 0, weights).
  [[nodiscard]] bool guards_empty_rows(const std::vector<NodeId>& nodes, TensorId weights) const {
    if (op(nodes[0]) != "IsNaN" || !is(nodes[1], AttentionPart::Choice)) return false;
    const auto& inputs = g_[nodes[1]].inputs;
    return inputs[0] == g_[nodes[0]].outputs[0] && inputs[2] == weights && is_number(inputs[1], 0);
  }

  void check_products() {
    const graph::Node &product = g_[forward_.front()], &output = g_[output_];
    scores_ = product.outputs[0];
    graph::Shape expected = shape(scores_);
    const bool plain = product.attributes.integer("trans_a", 0) == 0 && output.attributes.integer("trans_a", 0) == 0 &&
                       output.attributes.integer("trans_b", 0) == 0;
    const bool matrices = expected.size() >= 2 && shape(product.inputs[0]).size() >= 2 && shape(product.inputs[1]).size() >= 2 &&
                          shape(output.inputs[1]).size() >= 2 && shape(output.outputs[0]).size() == expected.size();
    if (!plain || !matrices) throw FusionObstacle{"queries or values are stored another way round"};
    expected.back() = shape(output.outputs[0]).back();
    if (shape(output.outputs[0]) != expected) throw FusionObstacle{named(output_) + " turns its rows"};
    if (product.inputs[0] == product.inputs[1]) throw FusionObstacle{"queries and keys are one tensor"};
    result_.attributes.set("keys_last", std::int64_t{product.attributes.integer("trans_b", 0) == 0 ? 1 : 0});
  }

  // ---- backward

  [[nodiscard]] NodeId gradient_of(NodeId forward, TensorId reads, std::string_view wanted) const {
    for (const NodeId n : readers(reads, Phase::Backward))
      if (g_[n].forward == forward && (wanted.empty() || op(n) == wanted)) return n;
    return NodeId::None;
  }

  /// Of a product, by the operand that is not `beside`: reads both.
  [[nodiscard]] NodeId gradient_of_product(NodeId product, TensorId reads, TensorId beside) const {
    for (const NodeId n : readers(reads, Phase::Backward))
      if (g_[n].forward == product && is(n, AttentionPart::Product) && std::count(g_[n].inputs.begin(), g_[n].inputs.end(), beside) == 1)
        return n;
    return NodeId::None;
  }

  [[nodiscard]] std::size_t other_operand(NodeId n, TensorId t) const { return g_[n].inputs[0] == t ? 1 : 0; }

  /// From the result's gradient to those of queries and keys.
  void find_gradient(NodeId softmax) {
    const TensorId values = g_[output_].inputs[1], weights = g_[output_].inputs[0];
    for (const NodeId n : readers(values, Phase::Backward))
      if (g_[n].forward == output_ && is(n, AttentionPart::Product) && !reads(n, weights)) of_weights_ = n;
    for (const NodeId n : readers(weights, Phase::Backward))
      if (g_[n].forward == output_ && is(n, AttentionPart::Product)) of_values_ = n;
    if (of_weights_ == NodeId::None && of_values_ == NodeId::None) return;
    if (of_weights_ == NodeId::None) throw FusionObstacle{"nothing is learned before its softmax"};
    result_gradient_ = g_[of_weights_].inputs[other_operand(of_weights_, values)];
    backward_.push_back(of_weights_);
    if (of_values_ != NodeId::None) {
      if (!reads(of_values_, result_gradient_)) throw FusionObstacle{named(of_values_) + " reads another gradient"};
      backward_.push_back(of_values_);
    }
    TensorId gradient = g_[of_weights_].outputs[0];
    for (std::size_t i = weighing_.size() - 1; i-- > 0;) undo(weighing_[i], gradient);
    undo(softmax, gradient);
    for (auto n = std::find(forward_.begin(), forward_.end(), softmax) - forward_.begin(); n-- > 1;)
      undo(forward_[static_cast<std::size_t>(n)], gradient);
    const graph::Node& product = g_[forward_.front()];
    of_queries_ = gradient_of_product(forward_.front(), gradient, product.inputs[1]);
    of_keys_ = gradient_of_product(forward_.front(), gradient, product.inputs[0]);
    for (const NodeId n : {of_queries_, of_keys_})
      if (n != NodeId::None) backward_.push_back(n);
  }

  [[nodiscard]] bool reads(NodeId n, TensorId t) const {
    return std::find(g_[n].inputs.begin(), g_[n].inputs.end(), t) != g_[n].inputs.end();
  }

  /// Through the gradient of one forward node; an addition has none, but its operand may want one.
  void undo(NodeId forward, TensorId& gradient) {
    if (op(forward) == "IsNaN" || op(forward) == "ReduceMax" || op(forward) == "Equal") return;
    if (op(forward) == "Add") return add_bias_gradient(forward, gradient);
    const NodeId n = gradient_of(forward, gradient, {});
    if (n == NodeId::None) {
      if (changes_nothing(forward)) return;
      throw FusionObstacle{named(forward) + " has another gradient than expected"};
    }
    if (!same_type(g_[n].outputs[0], gradient)) throw FusionObstacle{named(n) + " changes the type of the scores' gradient"};
    backward_.push_back(n);
    gradient = g_[n].outputs[0];
  }

  void add_bias_gradient(NodeId forward, TensorId gradient) {
    const NodeId n = gradient_of(forward, gradient, "ReduceSum");
    if (n == NodeId::None) return;
    const auto step = std::find_if(steps_.begin(), steps_.end(), [&](const Step& s) { return s.node == forward; });
    const TensorId bias = g_[forward].inputs[step->other];
    if (graph::element_count(shape(g_[n].outputs[0])) != graph::element_count(shape(bias)))  // dimensions of 1 aside
      throw FusionObstacle{named(n) + " sums to another shape than that of " + g_[bias].name};
    step->what.differentiated = true;
    bias_gradients_.emplace(forward, g_[n].outputs[0]);
    backward_.push_back(n);
  }

  // ---- the kernels

  void gather() {
    const graph::Node& product = g_[forward_.front()];
    result_.operands = {{forward_.front(), 0}, {forward_.front(), 1}, {output_, 1}};
    std::vector<std::int64_t> integers;
    std::vector<double> numbers;
    int others = 0;
    for (const Step& s : steps_) {
      const bool reads_one = s.what.operand >= 0;
      if (reads_one) result_.operands.push_back({s.node, s.other});
      integers.insert(integers.end(), {static_cast<std::int64_t>(s.what.kind), reads_one ? others++ : -1, s.what.differentiated ? 1 : 0});
      numbers.push_back(s.what.number);
    }
    if (others == 1 && std::any_of(steps_.begin(), steps_.end(), [&](const Step& s) { return is_causal(s); }))
      result_.attributes.set("causal", std::int64_t{1});
    result_.attributes.set("steps", std::move(integers));
    result_.attributes.set("numbers", std::move(numbers));
    result_.forward = forward_;
    if (backward_.empty()) return;
    std::sort(backward_.begin(), backward_.end());
    result_.backward = backward_;
    const TensorId values = g_[output_].inputs[1];
    result_.backward_operands = {{of_weights_, other_operand(of_weights_, values)},
                                 use_of(of_keys_, product.inputs[0], result_.operands[0]),
                                 use_of(of_queries_, product.inputs[1], result_.operands[1]),
                                 {of_weights_, 1 - other_operand(of_weights_, values)}};
    result_.backward_operands.insert(result_.backward_operands.end(), result_.operands.begin() + 3, result_.operands.end());
    for (const NodeId n : {of_queries_, of_keys_, of_values_})
      result_.gradients.push_back(n == NodeId::None ? TensorId::None : g_[n].outputs[0]);
    for (const Step& s : steps_)
      if (s.what.differentiated) result_.gradients.push_back(bias_gradients_.at(s.node));
  }

  /// Does the step hide from every row just the keys behind it?
  [[nodiscard]] bool is_causal(const Step& s) const {
    if (s.what.operand < 0 || s.what.differentiated) return false;
    const graph::Tensor& mask = g_[g_[s.node].inputs[s.other]];
    const bool hides = s.what.kind == Kind::HideElse ? s.what.number <= graph::kHidesScore : s.what.kind == Kind::Add;
    return hides && mask.role == graph::TensorRole::Constant && mask.contents.is_causal_mask &&
           mask.type.shape.back() == shape(scores_).back();
  }

  /// Where a backward node reads a tensor; where none does, as the forward pass reads it.
  [[nodiscard]] Use use_of(NodeId n, TensorId t, Use otherwise) const {
    if (n == NodeId::None) return otherwise;
    return {n, static_cast<std::size_t>(std::find(g_[n].inputs.begin(), g_[n].inputs.end(), t) - g_[n].inputs.begin())};
  }

  // ---- nobody else wants what is not made any more

  [[nodiscard]] bool is_result(TensorId t) const {
    return t == g_[output_].outputs[0] || std::find(result_.gradients.begin(), result_.gradients.end(), t) != result_.gradients.end();
  }

  void check_reach() const {
    std::set<NodeId> all(forward_.begin(), forward_.end());
    all.insert(backward_.begin(), backward_.end());
    for (const NodeId n : all)
      for (const TensorId t : g_[n].outputs) {
        if (t == TensorId::None || is_result(t)) continue;
        for (const NodeId reader : consumers_[graph::index(t)])
          if (!all.contains(reader)) throw FusionObstacle{named(reader) + " reads " + g_[t].name};
        if (std::find(g_.outputs().begin(), g_.outputs().end(), t) != g_.outputs().end())
          throw FusionObstacle{g_[t].name + " is an output"};
      }
    const graph::Node& product = g_[forward_.front()];
    const TensorId of[] = {product.inputs[0], product.inputs[1], g_[output_].inputs[1]};
    for (std::size_t i = 0; i < 3 && !backward_.empty(); ++i) {
      const TensorId gradient = result_.gradients[i];
      if (gradient == TensorId::None) continue;
      graph::Shape whole(shape(scores_).begin(), shape(scores_).end() - 2);
      whole.insert(whole.end(), shape(of[i]).end() - 2, shape(of[i]).end());
      if (shape(gradient) != whole) throw FusionObstacle{g_[gradient].name + " has another shape than expected"};
    }
  }

  // ---- everything lies alike

  void check_layouts() const {
    for (const auto* nodes : {&forward_, &backward_})
      for (const NodeId n : *nodes) {
        const auto& inputs = g_[n].inputs;
        for (std::size_t i = 0; i < inputs.size(); ++i)
          if (inputs[i] != TensorId::None && is_inside(inputs[i]) && s_.fed_by[graph::index(n)][i] >= 0)
            throw FusionObstacle{g_[inputs[i]].name + " is wanted in another layout than it is made in"};
        for (const TensorId t : g_[n].outputs)
          if (t != TensorId::None && is_inside(t)) check_layout(t);
      }
    for (const AxisLayout& l : s_.layout(g_[output_].outputs[0]))
      if (l.partial()) throw FusionObstacle{named(output_) + " leaves a sum over ranks"};
    if (backward_.empty()) return;
    for (std::size_t i = 0; i < 3; ++i) check_alike(result_.operands[i], result_.backward_operands[i + 1]);
    if (of_values_ != NodeId::None) check_alike(result_.backward_operands[0], use_of(of_values_, result_gradient_, {}));
  }

  [[nodiscard]] bool is_inside(TensorId t) const {
    const NodeId n = g_[t].producer;
    const auto& nodes = n != NodeId::None && g_[n].phase == Phase::Forward ? forward_ : backward_;
    return n != NodeId::None && !is_result(t) && std::find(nodes.begin(), nodes.end(), n) != nodes.end();
  }

  void check_layout(TensorId t) const {
    for (std::size_t a = 0; a < s_.axes.size(); ++a) {
      const AxisLayout& l = s_.layout(t)[a];
      if (l.partial()) throw FusionObstacle{g_[t].name + " is a sum over " + s_.axes[a].name};
      if (l.split() && static_cast<std::size_t>(l.dim) + 1 == shape(t).size())
        throw FusionObstacle{g_[t].name + " has its keys split by " + s_.axes[a].name};
    }
  }

  void check_alike(Use a, Use b) const {
    if (s_.wanted[graph::index(a.node)][a.operand] != s_.wanted[graph::index(b.node)][b.operand])
      throw FusionObstacle{named(a.node) + " and " + named(b.node) + " read " + g_[g_[a.node].inputs[a.operand]].name + " in two layouts"};
  }

  const graph::Graph& g_;
  const Sharding& s_;
  const std::vector<std::vector<NodeId>>& consumers_;
  FusedAttention result_;
  std::vector<NodeId> forward_, backward_;
  std::vector<NodeId> weighing_;  ///< behind the softmax, the product with values last
  std::vector<Step> steps_;
  std::map<NodeId, TensorId> bias_gradients_;
  NodeId output_ = NodeId::None, of_queries_ = NodeId::None, of_keys_ = NodeId::None, of_values_ = NodeId::None, of_weights_ = NodeId::None;
  TensorId row_flags_ = TensorId::None;  ///< of rows whose scores are all hidden, until what makes them is found
  TensorId scores_ = TensorId::None, result_gradient_ = TensorId::None;
};

bool all_together(const FusedAttention& fused, const RunsTogether& together) {
  return std::ranges::all_of(std::array{&fused.forward, &fused.backward}, [&](const auto* nodes) {
    return std::ranges::all_of(*nodes, [&](NodeId n) { return together(nodes->front(), n); });
  });
}

NodeId softmax_of(const graph::Graph& g, const FusedAttention& fused) {
  return *std::ranges::find(fused.forward, AttentionPart::Softmax, [&](NodeId n) { return graph::schema(g[n]).in_attention; });
}

void number_nodes(const graph::Graph& g, Sharding& sharding) {
  sharding.fused_of_node.assign(sharding.fused.empty() ? 0 : g.nodes().size(), -1);
  for (std::size_t f = 0; f < sharding.fused.size(); ++f)
    for (const auto* nodes : {&sharding.fused[f].forward, &sharding.fused[f].backward})
      for (const NodeId n : *nodes) sharding.fused_of_node[graph::index(n)] = static_cast<std::int32_t>(f);
}

}  // namespace

void fuse_attention(const graph::TrainingGraph& training, Sharding& sharding) {
  const graph::Graph& g = training.graph;
  std::vector<std::vector<NodeId>> consumers;
  for (std::size_t n = 0; n < g.nodes().size(); ++n) {
    const auto id = static_cast<NodeId>(n);
    if (g[id].phase != Phase::Forward) break;
    if (graph::schema(g[id]).in_attention != AttentionPart::Softmax || sharding.ring_of(id)) continue;
    if (consumers.empty()) consumers = g.consumers();
    KernelFinder finder(training, sharding, consumers);
    try {
      if (finder.find(id)) sharding.fused.push_back(std::move(finder.result()));
    } catch (const FusionObstacle& obstacle) {
      sharding.not_fused.push_back({id, obstacle.reason});
    }
  }
  number_nodes(g, sharding);
}

bool has_parts_apart(const Sharding& sharding, const RunsTogether& together) {
  return std::ranges::any_of(sharding.fused, [&](const FusedAttention& f) { return !all_together(f, together); });
}

void split_apart(const graph::Graph& g, Sharding& sharding, const RunsTogether& together) {
  const auto apart = std::ranges::stable_partition(sharding.fused, [&](const FusedAttention& f) { return all_together(f, together); });
  for (const auto& fused : apart) sharding.not_fused.push_back({softmax_of(g, fused), "a pipeline stage ends within it"});
  std::ranges::sort(sharding.not_fused, {}, &NotFused::softmax);
  sharding.fused.erase(apart.begin(), apart.end());
  number_nodes(g, sharding);
}

}  // namespace rehearsal::plan
