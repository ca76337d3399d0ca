#pragma once
// Holds a graph to what every pass over it must leave true.

#include <string_view>

#include "graph/graph.hpp"

namespace rehearsal::graph {

/// Names of tensors and of nodes are unique, and find() knows the former. Inputs have the role and nobody produces them. A node reads what
/// was there before it, its results say that it produces them, and their types are those that its row infers. What overwrites stored values
/// has their type. Throws InternalError naming the pass, the node and the tensor.
void check_graph(const Graph&, std::string_view after_pass);

}  // namespace rehearsal::graph
