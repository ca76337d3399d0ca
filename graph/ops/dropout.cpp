#include "graph/ops/families.hpp"

namespace rehearsal::graph {

std::span<const OpSchema> dropout_ops() { return {}; }

}  // namespace rehearsal::graph
