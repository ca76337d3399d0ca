#include "graph/gradient.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::graph {
namespace {

/// The axes of `from` that broadcasting `to` up to it has made or enlarged.
std::vector<std::int64_t> broadcast_axes(const Shape& to, const Shape& from) {
  const std::size_t leading = from.size() - to.size();
  std::vector<std::int64_t> axes;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (d < leading || (to[d - leading] == 1 && from[d] != 1)) axes.push_back(static_cast<std::int64_t>(d));
  }
  return axes;
}

/// True for tensors that depend on one of `wanted` through floating-point tensors.
std::vector<bool> depends_on(const Graph& graph, std::span<const TensorId> wanted) {
  std::vector<bool> depends(graph.tensors().size());
  for (const TensorId t : wanted) depends[index(t)] = true;
  for (const Node& node : graph.nodes()) {
    const bool any =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](TensorId t) { return t != TensorId::None && depends[index(t)]; });
    for (const TensorId t : node.outputs) {
      if (any && t != TensorId::None && is_float(graph[t].type.dtype)) depends[index(t)] = true;
    }
  }
  return depends;
}

/// One sweep from the loss to the wanted tensors.
class Sweep {
 public:
  Sweep(GraphBuilder& builder, std::span<const TensorId> wanted)
      : builder_(builder), depends_(depends_on(builder.so_far(), wanted)), parts_(builder.so_far().tensors().size()) {}

  void seed(TensorId loss) {
    const TensorType type = builder_.type(loss);
    const Value one =
        Value::of_reals(std::vector<double>(static_cast<std::size_t>(element_count(type.shape)), 1.0), type.shape, type.dtype);
    parts_[index(loss)].push_back(builder_.add_constant(builder_.fresh_name("one"), one));
  }

  void visit(NodeId n, std::vector<Untrainable>& blocked) {
    const Node node = builder_[n];
    std::vector<bool> wants;
    for (const TensorId t : node.inputs) wants.push_back(t != TensorId::None && depends_[index(t)]);
    if (std::none_of(wants.begin(), wants.end(), [](bool w) { return w; })) return;
    const bool reached =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](TensorId t) { return t != TensorId::None && !parts_[index(t)].empty(); });
    if (!reached) return;
    const OpSchema& row = schema(node);
    if (!row.gradient) {
      blocked.push_back({n, row.no_gradient.empty() ? "the operator has no derivative here" : std::string(row.no_gradient)});
      return;
    }
    std::vector<TensorId> arriving;
    for (const TensorId t : node.outputs) arriving.push_back(t == TensorId::None ? TensorId::None : total(t));
    GradientContext context(builder_, n, std::move(arriving), wants);
    row.gradient(context);
    collect(node, context.input_gradients(), wants);
  }

  /// The sum of what has arrived at t; None when nothing has.
  TensorId total(TensorId t) {
    auto& parts = parts_[index(t)];
    if (parts.empty()) return TensorId::None;
    TensorId sum = parts.back();  // parts arrive from the last consumer to the first
    for (auto part = parts.rbegin() + 1; part != parts.rend(); ++part) {
      sum = builder_.add("Add", {sum, *part}, {}, {builder_[t].name + ".grad_sum", Phase::Backward, NodeId::None, {}}).front();
    }
    parts = {sum};
    return sum;
  }

 private:
  void collect(const Node& node, const std::vector<TensorId>& gradients, const std::vector<bool>& wants) {
    for (std::size_t i = wants.size(); i-- > 0;) {
      const TensorId gradient = gradients[i];
      if (!wants[i] || gradient == TensorId::None) continue;
      const TensorId input = node.inputs[i];
      if (builder_.type(gradient) != builder_.type(input)) {
        throw InternalError("the gradient of operand " + std::to_string(i) + " of '" + node.name + "' (" + std::string(schema(node).name) +
                            ") is " + describe(gradient) + ", the operand " + describe(input));
      }
      parts_[index(input)].push_back(gradient);
    }
  }

  [[nodiscard]] std::string describe(TensorId t) const {
    return std::string(name(builder_.type(t).dtype)) + to_text(builder_.type(t).shape);
  }

  GraphBuilder& builder_;
  std::vector<bool> depends_;
  std::vector<std::vector<TensorId>> parts_;  ///< gradients that arrived at each forward tensor, last consumer first
};

}  // namespace

GradientContext::GradientContext(GraphBuilder& builder, NodeId forward, std::vector<TensorId> output_gradients, std::vector<bool> wanted)
    : builder_(builder),
      forward_(forward),
      node_(builder[forward]),
      output_gradients_(std::move(output_gradients)),
      input_gradients_(node_.inputs.size(), TensorId::None),
      wanted_(std::move(wanted)) {}

TensorId GradientContext::input(std::size_t i) const { return i < node_.inputs.size() ? node_.inputs[i] : TensorId::None; }
TensorId GradientContext::output(std::size_t i) const { return i < node_.outputs.size() ? node_.outputs[i] : TensorId::None; }

std::vector<TensorId> GradientContext::emit(std::string_view op, std::vector<TensorId> inputs, Attributes attributes) {
  return builder_.add(op, std::move(inputs), std::move(attributes), {node_.name + ".grad", Phase::Backward, forward_, {}});
}

TensorId GradientContext::constant(double value, DType dtype) {
  return builder_.add_constant(builder_.fresh_name(node_.name + ".constant"), Value::scalar(value, dtype));
}

void GradientContext::set_broadcast(std::size_t i, TensorId gradient) {
  const Shape to = type(input(i)).shape, from = type(gradient).shape;
  const auto axes = broadcast_axes(to, from);
  if (!axes.empty()) {
    const bool keep = from.size() == to.size();
    gradient = emit1("ReduceSum", {gradient}, {{"axes", axes}, {"keepdims", std::int64_t{keep}}});
  }
  if (type(gradient).shape != to) gradient = emit1("Reshape", {gradient}, {{"shape", to}});
  set(i, gradient);
}

std::vector<TensorId> differentiate(GraphBuilder& builder, TensorId loss, std::span<const TensorId> wanted,
                                    std::vector<Untrainable>& blocked) {
  ensure(element_count(builder.type(loss).shape) == 1 && is_float(builder.type(loss).dtype),
         "only a floating-point loss of one element can be differentiated");
  const std::size_t forward_nodes = builder.node_count();
  Sweep sweep(builder, wanted);
  sweep.seed(loss);
  for (std::size_t n = forward_nodes; n-- > 0;) sweep.visit(static_cast<NodeId>(n), blocked);
  std::vector<TensorId> gradients;
  for (const TensorId t : wanted) gradients.push_back(sweep.total(t));
  return gradients;
}

TensorId before_moves(const GraphBuilder& builder, TensorId t) {
  for (NodeId made_by = builder[t].producer; made_by != NodeId::None; made_by = builder[t].producer) {
    const Node& node = builder[made_by];
    const DimsRule rule = schema(node).dims;
    if (rule != DimsRule::Transpose && rule != DimsRule::View) break;
    t = node.inputs[0];
  }
  return t;
}

}  // namespace rehearsal::graph
