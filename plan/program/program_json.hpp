#pragma once
// A Program as a file: everything that its interpreters do, by names, for other tools to read and for `rehearse simulate` to play again.

#include <string>

#include "graph/graph.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// Writes atomically. `context` says what the Program was made for, as in plan.json.
void write_program_file(const std::string& path, const Program&, const graph::Graph&, const PlanContext& context);

/// Is it a Program rather than a plan or a model? False for what is no JSON file.
[[nodiscard]] bool is_program_file(const std::string& path);
/// Plan and context of a Program. Throws BadInput naming file and key.
[[nodiscard]] PlanFile read_program_heading(const std::string& path);
/// The Program of a file. Its instructions, slots, buffers, collectives and messages are the file's; what a file does not hold (who owns
/// which elements) is that of `lowered`, the Program that the file's plan makes of the same model.
/// Throws BadInput naming file and key: unknown names, indices that lead nowhere, roles that are not those of the plan.
[[nodiscard]] Program read_program_file(const std::string& path, Program lowered, const graph::Graph&);

}  // namespace rehearsal::plan
