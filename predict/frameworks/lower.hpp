#pragma once
#include "graph/graph.hpp"
#include "predict/frameworks/job.hpp"
#include "predict/frameworks/part.hpp"

namespace rehearsal::predict::frameworks {

/// The forward graph of one micro-batch (its batch is the plan's micro_batch, its sequence that of one context-parallel rank) as rows of
/// one rank's work. Holds no fitted constant.
[[nodiscard]] ModelRows lower_to_rows(const graph::Graph&, const AnalyticJob&);

}  // namespace rehearsal::predict::frameworks
