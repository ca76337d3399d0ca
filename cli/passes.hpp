#pragma once
// The passes of lowering, and what each of them leaves: `explain --passes` and `--after`.

#include <string>

#include "cli/terminal.hpp"
#include "predict/assessment.hpp"

namespace rehearsal::cli {

/// A line for every pass over every role: how many instructions, buffers and messages the role has behind it.
void print_passes(const predict::Job&, const plan::Plan&, Terminal&);

/// Every instruction of every role as it is behind `pass`. Throws BadInput where no pass is called so, naming the nearest, and Refusal
/// where the plan has no use for the pass.
void print_after(const predict::Job&, const plan::Plan&, const std::string& pass, Terminal&);

}  // namespace rehearsal::cli
