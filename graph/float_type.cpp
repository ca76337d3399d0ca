#include <array>

#include "base/error.hpp"
#include "graph/builder.hpp"
#include "graph/training.hpp"

namespace rehearsal::graph {
namespace {

/// Attributes that name the element type of a result.
constexpr std::array<std::string_view, 2> kFloatTypeTypeAttributes = {"to", "dtype"};

/// A running statistic moves in steps that 16 bits would round away.
bool keeps_statistics(const Graph& graph, const Tensor& tensor) {
  return tensor.role == TensorRole::State || (tensor.stored_in != TensorId::None && graph[tensor.stored_in].role == TensorRole::State);
}

}  // namespace

Graph with_float_type(const Graph& graph, DType dtype) {
  if (!is_float(dtype)) throw BadInput("'" + std::string(name(dtype)) + "' is no floating-point type");
  GraphBuilder builder(graph);
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const Tensor& tensor = graph.tensors()[t];
    if (tensor.type.dtype == DType::F32 && !(size_of(dtype) == 2 && keeps_statistics(graph, tensor)))
      builder.set_dtype(static_cast<TensorId>(t), dtype);
  }
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.inputs.empty() && graph[node.outputs.front()].type.dtype == DType::F32)
      builder.set_attribute(static_cast<NodeId>(n), "dtype", std::string(name(dtype)));
    for (const std::string_view key : kFloatTypeTypeAttributes) {
      const auto* value = node.attributes.find(key);
      const auto* text = value ? std::get_if<std::string>(value) : nullptr;
      if (text != nullptr && dtype_from_name(*text) == DType::F32)
        builder.set_attribute(static_cast<NodeId>(n), key, std::string(name(dtype)));
    }
  }
  builder.keep_all();
  return std::move(builder).build();
}

}  // namespace rehearsal::graph
