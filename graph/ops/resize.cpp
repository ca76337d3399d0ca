#include "graph/ops/families.hpp"

namespace rehearsal::graph {

std::span<const OpSchema> resize_ops() { return {}; }

}  // namespace rehearsal::graph
