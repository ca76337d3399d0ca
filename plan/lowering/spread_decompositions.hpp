#pragma once
// Who decomposes what where replicas share out the matrices of a second-order optimizer (Plan::decompositions).

#include <vector>

#include "graph/graph.hpp"

namespace rehearsal::plan {

/// The largest piece first, each to the rank that has least so far (Graham 1969: at most 4/3 of what is best). The rank that has most is
/// number 0, which stands for all of them in what is predicted.
[[nodiscard]] std::vector<int> shared_out(const std::vector<double>& work, int ranks);

/// Does the node decompose a matrix for an optimizer, or any node of the graph?
[[nodiscard]] bool decomposes(const graph::Node&);
[[nodiscard]] bool decomposes(const graph::Graph&);

}  // namespace rehearsal::plan
