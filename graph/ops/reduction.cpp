#include "graph/ops/families.hpp"

namespace rehearsal::graph {

std::span<const OpSchema> reduction_ops() { return {}; }

}  // namespace rehearsal::graph
