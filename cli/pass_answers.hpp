#pragma once
// The passes of import and of lowering, and what each of them leaves: `inspect --passes`, `explain --passes` and `--after`.

#include <iosfwd>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/terminal.hpp"
#include "formats/onnx/model_import.hpp"
#include "predict/assessment.hpp"

namespace rehearsal::cli {

/// A line for every pass of import: how many nodes and tensors the file or graph has behind it; then what it did to which of them.
void print_import_passes(std::span<const formats::ImportPassResult>, std::ostream&);
[[nodiscard]] nlohmann::ordered_json import_passes_json(std::span<const formats::ImportPassResult>);

/// A line for every pass over every role: how many instructions, buffers and messages the role has behind it.
void print_passes(const predict::Workload&, const plan::Plan&, Terminal&);

/// Every instruction of every role as it is behind `pass`. Throws BadInput where no pass is called so, naming the nearest, and Refusal
/// where the plan has no use for the pass.
void print_after(const predict::Workload&, const plan::Plan&, const std::string& pass, Terminal&);

}  // namespace rehearsal::cli
