#pragma once
// Whether an instruction of a Program that somebody else wrote has the buffers that its kind needs.

#include <string>

#include "graph/graph.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// Why evaluators could not look at the instruction's inputs and outputs; empty: they can. Its node, kernel and buffers are there.
[[nodiscard]] std::string operands_fault(const Program&, const Role&, const Instruction&, const graph::Graph&);

}  // namespace rehearsal::plan
