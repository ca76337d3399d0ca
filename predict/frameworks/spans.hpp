#pragma once
#include <vector>

#include "graph/graph.hpp"
#include "predict/frameworks/part.hpp"

namespace rehearsal::predict::frameworks {

/// Cuts the forward nodes of a graph into spans: where a run of nodes repeats (same operators, attributes and shapes), the shortest
/// period that covers most; everything else is a span of its own. Spans cover all nodes in order.
[[nodiscard]] std::vector<Span> repeated_spans(const graph::Graph&);

}  // namespace rehearsal::predict::frameworks
