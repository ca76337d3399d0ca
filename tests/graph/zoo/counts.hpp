#pragma once
// What a model has, counted over its nodes and tensors.

#include <algorithm>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::graph::zoo {

/// Trained or not.
inline std::int64_t parameters_of(const Graph& graph) {
  std::int64_t count = 0;
  for (const Tensor& tensor : graph.tensors()) count += is_weight(tensor.role) ? element_count(tensor.type.shape) : 0;
  return count;
}

/// FLOPs of the forward nodes of some operators.
inline double flops_of(const Graph& graph, const std::vector<std::string_view>& ops) {
  double flops = 0;
  for (const Node& node : graph.nodes())
    if (std::ranges::find(ops, schema(node).name) != ops.end()) flops += graph::flops_of(graph, node);
  return flops;
}

}  // namespace rehearsal::graph::zoo
