#pragma once
#include <string>

#include "graph/graph.hpp"
#include "plan/program.hpp"

namespace rehearsal::plan {

/// One line per instruction of a role, body by body: what it does, on which tensors, how many bytes, what it waits for.
[[nodiscard]] std::string to_text(const Program&, const Role&, const graph::Graph&);

}  // namespace rehearsal::plan
