#include "graph/ops/families.hpp"

namespace rehearsal::graph {

std::span<const OpSchema> optimizer_ops() { return {}; }

}  // namespace rehearsal::graph
