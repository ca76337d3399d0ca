#include "graph/ops/families.hpp"

namespace rehearsal::graph {

std::span<const OpSchema> movement_ops() { return {}; }

}  // namespace rehearsal::graph
