#include "graph/parameter_use.hpp"

#include <algorithm>

#include "graph/op_schema.hpp"

namespace rehearsal::graph {
namespace {

class UsesOfWeights {
 public:
  explicit UsesOfWeights(const Graph& model) : g_(model), consumers_(model.consumers()), uses_(model.tensors().size()) {}

  std::vector<ParameterUse> find() && {
    for (std::size_t t = 0; t < uses_.size(); ++t) uses_[t].shape = g_.tensors()[t].type.shape;
    for (const Node& node : g_.nodes()) {
      multiply(node);
      convolve(node);
    }
    for (std::size_t t = 0; t < uses_.size(); ++t)
      if (uses_[t].rows > 0) {
        uses_[t].hidden_matrix = is_hidden(static_cast<TensorId>(t));
        uses_[t].one_product = has_one_product(static_cast<TensorId>(t));
      }
    for (ParameterUse& use : uses_)
      if (!use.hidden_matrix && !use.one_product) use.rows = use.columns = 0;
    return std::move(uses_);
  }

 private:
  void multiply(const Node& node) {
    const TensorId weight = weight_of_product(g_, node);
    if (weight == TensorId::None || g_[weight].type.shape.size() < 2) return;
    ParameterUse& use = uses_[index(weight)];
    use.rows = use.shape[use.shape.size() - 2];
    use.columns = use.shape.back();
    const bool turned = node.inputs[1] != weight;
    use.outputs_are_rows = turned != (node.attributes.integer("trans_b", 0) != 0);
  }

  /// Groups of a convolution see their own inputs alone: their kernels are no one matrix.
  void convolve(const Node& node) {
    if (schema(node).name != "Conv" || !is_weight(g_[node.inputs[1]].role) || node.attributes.integer("group", 1) != 1) return;
    ParameterUse& use = uses_[index(node.inputs[1])];
    use.rows = use.shape[0];
    use.columns = element_count(use.shape) / std::max<std::int64_t>(1, use.rows);
    use.outputs_are_rows = use.kernels = true;
  }

  [[nodiscard]] bool has_one_product(TensorId weight) const {
    const auto& readers = consumers_[index(weight)];
    if (readers.size() != 1) return false;
    const Node& node = g_[readers.front()];
    if (schema(node).name == "Transpose") return has_one_product(node.outputs[0]);
    return is_product(schema(node).family);
  }

  [[nodiscard]] bool is_hidden(TensorId weight) const {
    const auto& readers = consumers_[index(weight)];
    return std::ranges::all_of(readers, [&](NodeId n) {
      const Node& node = g_[n];
      if (schema(node).name == "Transpose") return is_hidden(node.outputs[0]);
      return is_product(schema(node).family) && !makes_output(node.outputs[0]);
    });
  }

  /// Is it an output, or does nothing but stored tensors join it on the way to one?
  [[nodiscard]] bool makes_output(TensorId t) const {
    const auto& outputs = g_.outputs();
    if (std::ranges::find(outputs, t) != outputs.end()) return true;
    return std::ranges::any_of(consumers_[index(t)], [&](NodeId n) {
      const Node& node = g_[n];
      const auto& row = schema(node);
      if (!has(row.traits, Trait::View) && !has(row.traits, Trait::Elementwise)) return false;
      const bool alone = std::ranges::all_of(node.inputs, [&](TensorId other) {
        return other == t || other == TensorId::None || (g_[other].producer == NodeId::None && g_[other].role != TensorRole::Input);
      });
      return alone && makes_output(node.outputs[0]);
    });
  }

  const Graph& g_;
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<ParameterUse> uses_;
};

}  // namespace

TensorId weight_of_product(const Graph& g, const Node& node) {
  if (schema(node).family != CostFamily::MatMul || node.inputs.size() < 2 || node.attributes.integer("trans_a", 0) != 0)
    return TensorId::None;
  TensorId t = node.inputs[1];
  if (g[t].producer != NodeId::None && schema(g[g[t].producer]).name == "Transpose") t = g[g[t].producer].inputs[0];
  return is_weight(g[t].role) ? t : TensorId::None;
}

std::vector<ParameterUse> parameter_uses(const Graph& model) { return UsesOfWeights(model).find(); }

}  // namespace rehearsal::graph
