#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "predict/assessment.hpp"

namespace rehearsal::cli {

/// `input` of estimate, of an assessment that has one (docs/input.md).
[[nodiscard]] nlohmann::ordered_json input_json(const predict::Assessment&);

/// Whether steps are bound by it, by what, and by how much.
[[nodiscard]] std::string sentence_of_input(const predict::Assessment&);

}  // namespace rehearsal::cli
