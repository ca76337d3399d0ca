// Initial values of parameters that a model does not bring, by what first reads them:
//   weights of convolutions and matrix products   normal(0, sqrt(2 / fan_in))   (He et al. 2015, equation 10)
//   embeddings, positions                         normal(0, 0.02)               (Radford et al. 2019, GPT-2's released code)
//   scales of normalizations, factors, variances  1
//   biases, means, everything else of rank < 2    0
//   slopes of PReLU                               0.25                          (He et al. 2015, section 2.1)

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/hash.hpp"
#include "graph/builder.hpp"
#include "graph/master_weights.hpp"
#include "graph/op_schema.hpp"
#include "graph/training.hpp"

namespace rehearsal::graph {
namespace {

constexpr double kEmbeddingDeviation = 0.02;

using Source = Contents::Source;

Source he_normal(double fan_in) { return RandomNormal{0, std::sqrt(2.0 / std::max(1.0, fan_in))}; }
Source all_elements(double value) { return Fill{value}; }

double share_of(const Shape& shape, std::size_t axis) {
  return static_cast<double>(element_count(shape)) / static_cast<double>(std::max<std::int64_t>(1, shape.at(axis)));
}

Source ones(const Shape&, const Attributes&) { return all_elements(1); }
Source zeros(const Shape&, const Attributes&) { return all_elements(0); }
Source quarter(const Shape&, const Attributes&) { return all_elements(0.25); }
Source embedding(const Shape&, const Attributes&) { return RandomNormal{0, kEmbeddingDeviation}; }
/// [out, in / group, kernel...]
Source convolution(const Shape& shape, const Attributes&) { return he_normal(share_of(shape, 0)); }
/// [in, out / group, kernel...]: every result element sees in / group inputs, kernel / stride of them once.
Source transposed_convolution(const Shape& shape, const Attributes& attributes) {
  double fan_in = share_of(shape, 1) / static_cast<double>(attributes.integer("group", 1));
  for (const std::int64_t stride : attributes.integers("strides")) fan_in /= static_cast<double>(stride);
  return he_normal(fan_in);
}
Source left_factor(const Shape& shape, const Attributes&) { return he_normal(static_cast<double>(shape.back())); }
Source right_factor(const Shape& shape, const Attributes& attributes) {
  const bool transposed = shape.size() < 2 || attributes.integer("trans_b", 0) != 0;
  return he_normal(static_cast<double>(transposed ? shape.back() : shape[shape.size() - 2]));
}
/// A position embedding, or a bias.
Source addend(const Shape& shape, const Attributes& attributes) {
  const bool table = std::count_if(shape.begin(), shape.end(), [](std::int64_t d) { return d > 1; }) >= 2;
  return table ? embedding(shape, attributes) : zeros(shape, attributes);
}

struct Rule {
  std::string_view op;
  std::size_t operand;
  Source (*source)(const Shape&, const Attributes&);
};
constexpr Rule kRules[] = {
    {"Conv", 1, convolution},
    {"Conv", 2, zeros},
    {"ConvTranspose", 1, transposed_convolution},
    {"ConvTranspose", 2, zeros},
    {"MatMul", 0, left_factor},
    {"MatMul", 1, right_factor},
    {"Gemm", 1, right_factor},
    {"Gemm", 2, zeros},
    {"Gather", 0, embedding},
    {"BatchNormApply", 2, ones},
    {"BatchNormApply", 3, zeros},
    {"BatchNormRunning", 1, zeros},
    {"BatchNormRunning", 2, ones},
    {"BatchNormInference", 1, ones},
    {"BatchNormInference", 2, zeros},
    {"BatchNormInference", 3, zeros},
    {"BatchNormInference", 4, ones},
    {"GroupNormApply", 2, ones},
    {"GroupNormApply", 3, zeros},
    {"LayerNormalization", 1, ones},
    {"LayerNormalization", 2, zeros},
    {"RMSNormalization", 1, ones},
    {"Mul", 0, ones},
    {"Mul", 1, ones},
    {"Div", 1, ones},
    {"PRelu", 1, quarter},
    {"Add", 0, addend},
    {"Add", 1, addend},
    {"Sub", 0, addend},
    {"Sub", 1, addend},
};

/// Rows that only hand their operand on.
bool passes_on(std::string_view op) { return op == "Reshape" || op == "Transpose" || op == "Cast" || op == "Expand" || op == "Identity"; }

Source without_rule(const Shape& shape) { return shape.size() < 2 ? all_elements(0) : he_normal(share_of(shape, 0)); }

class Readers {
 public:
  explicit Readers(const Graph& graph) : graph_(graph), consumers_(graph.consumers()) {}

  /// By the first reader, looked for through views.
  [[nodiscard]] Source source(TensorId t) const {
    for (const NodeId n : consumers_[index(t)]) {
      const auto found = source_for(t, graph_[n]);
      if (found) return *found;
    }
    return without_rule(graph_[t].type.shape);
  }

 private:
  [[nodiscard]] std::optional<Source> source_for(TensorId t, const Node& node) const {
    const std::string_view op = schema(node).name;
    if (passes_on(op)) return source(node.outputs.front());
    const auto operand = static_cast<std::size_t>(std::find(node.inputs.begin(), node.inputs.end(), t) - node.inputs.begin());
    for (const Rule& rule : kRules) {
      if (rule.op == op && rule.operand == operand) return rule.source(graph_[t].type.shape, node.attributes);
    }
    return std::nullopt;
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> consumers_;
};

}  // namespace

std::uint64_t initial_stream(std::string_view tensor_name) { return Hasher().add(parameter_of_slot(tensor_name)).value(); }

Graph with_initial_values(const Graph& graph) {
  const Readers readers(graph);
  GraphBuilder builder(graph);
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    const Tensor& tensor = graph.tensors()[i];
    if (tensor.contents.known() || (!is_weight(tensor.role) && tensor.role != TensorRole::State && tensor.role != TensorRole::Constant))
      continue;
    builder.set_contents(static_cast<TensorId>(i), {tensor.type.dtype, readers.source(static_cast<TensorId>(i))});
  }
  builder.keep_all();
  return std::move(builder).build();
}

}  // namespace rehearsal::graph
