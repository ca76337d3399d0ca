#include "graph/ops/families.hpp"

namespace rehearsal::graph {

std::span<const OpSchema> normalization_ops() { return {}; }

}  // namespace rehearsal::graph
