#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/terminal.hpp"
#include "predict/predictor.hpp"

namespace rehearsal::cli {

[[nodiscard]] nlohmann::ordered_json to_json(const costmodel::Interval&);
/// The keys of `estimate` (docs/cli-answers.md).
[[nodiscard]] nlohmann::ordered_json to_json(const predict::Assessment&, double steps);
/// Prints the result for one plan, with a warning where it is likely to run out of memory. Throws Refusal after that when the plan does not
/// fit into memory; `remedy` says what would.
void print_for_plan(Terminal&, nlohmann::ordered_json result, const predict::Assessment&, const std::string& remedy = {});
/// What of a plan that does not fit, or is likely to run out of memory, is best changed, by the closed form; empty for any other.
[[nodiscard]] std::string remedy_of(predict::Predictor&, const predict::Assessment&);

}  // namespace rehearsal::cli
