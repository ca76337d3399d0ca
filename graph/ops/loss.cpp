#include "graph/ops/families.hpp"

namespace rehearsal::graph {

std::span<const OpSchema> loss_ops() { return {}; }

}  // namespace rehearsal::graph
