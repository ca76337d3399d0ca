#pragma once
#include <string>

#include "graph/graph.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// What an instruction does, in a few words: "MatMul h.0.attn by onednn", "send to stage 1".
[[nodiscard]] std::string describe(const Program&, const Role&, const Instruction&, const graph::Graph&);

/// One line per instruction of a role, body by body: what it does, on which tensors, how many bytes, what it waits for.
[[nodiscard]] std::string to_text(const Program&, const Role&, const graph::Graph&);

/// The Program as a directed graph in Graphviz's language: a box per role and body, a node per instruction, an edge from what writes a
/// buffer to what reads it, dashed where streams wait for each other.
[[nodiscard]] std::string to_dot(const Program&, const graph::Graph&);

}  // namespace rehearsal::plan
