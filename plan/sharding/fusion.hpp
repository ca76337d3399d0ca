#pragma once
// Attention that a rank can compute with one kernel each way (graph/ops/attention.hpp), found by what its nodes do.

#include <functional>

#include "plan/sharding/sharding.hpp"

namespace rehearsal::plan {

/// Do two nodes run in one pass of one pipeline stage?
using RunsTogether = std::function<bool(graph::NodeId, graph::NodeId)>;

/// Into sharding.fused, with what stands in the way of others in sharding.not_fused. What goes round a ring stays as it is.
void fuse_attention(const graph::TrainingGraph&, Sharding& sharding);
/// Is there something fused whose nodes do not run together?
[[nodiscard]] bool has_parts_apart(const Sharding&, const RunsTogether&);
/// That stays several nodes.
void split_apart(const graph::Graph&, Sharding& sharding, const RunsTogether&);

}  // namespace rehearsal::plan
