#include "graph/ops/families.hpp"

namespace rehearsal::graph {

std::span<const OpSchema> convolution_ops() { return {}; }

}  // namespace rehearsal::graph
