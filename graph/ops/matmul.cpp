#include "graph/ops/families.hpp"

namespace rehearsal::graph {

std::span<const OpSchema> matmul_ops() { return {}; }

}  // namespace rehearsal::graph
