#pragma once
// How a graph is sharded, found once for plans that follow each other and differ in what sharding does not look at.

#include <memory>

#include "graph/training.hpp"
#include "plan/sharding/rule_book.hpp"

namespace rehearsal::plan {

/// The graph on the axes of `wanted`, with attention fused where that is wanted. Throws Refusal when it cannot run so.
[[nodiscard]] std::shared_ptr<const Sharding> sharded(const graph::TrainingGraph&, const std::shared_ptr<const graph::LogicalDims>&,
                                                      KnownSharding wanted, RuleBook&);

}  // namespace rehearsal::plan
