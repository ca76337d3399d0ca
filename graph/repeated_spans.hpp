#pragma once
// Layers that follow each other and are alike.

#include <vector>

#include "graph/graph.hpp"

namespace rehearsal::graph {

/// Nodes [first, first + length) and their repetitions right behind: a transformer block, a residual block, or what stands between.
struct Span {
  std::size_t first = 0, length = 0;
  int repeats = 1;
  bool recurrence = false;  ///< its repetitions are steps of a recurrent layer, which all read the same weights, and no layers of their own
  int chain = 1;            ///< layers that follow each other and differ at most in what is frozen: these, and those of neighbouring spans
};

/// Cuts the forward nodes of a graph into spans: where a run of nodes repeats (same operators, attributes and shapes), the shortest
/// period that covers most, and reads weights, cut once more where other weights of a repetition are frozen; everything else is a span of
/// its own. Spans cover all nodes in order. A recurrence ends with the last step that reads its weights.
[[nodiscard]] std::vector<Span> repeated_spans(const Graph&);

}  // namespace rehearsal::graph
