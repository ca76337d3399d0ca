#include "graph/ops/families.hpp"

namespace rehearsal::graph {

std::span<const OpSchema> elementwise_ops() { return {}; }

}  // namespace rehearsal::graph
