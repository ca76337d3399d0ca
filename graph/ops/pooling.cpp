#include "graph/ops/families.hpp"

namespace rehearsal::graph {

std::span<const OpSchema> pooling_ops() { return {}; }

}  // namespace rehearsal::graph
