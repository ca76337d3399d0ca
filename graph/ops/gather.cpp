#include "graph/ops/families.hpp"

namespace rehearsal::graph {

std::span<const OpSchema> gather_ops() { return {}; }

}  // namespace rehearsal::graph
