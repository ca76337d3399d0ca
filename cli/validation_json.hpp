#pragma once
// Scores of predictions as results, and what of a file of records is left out.

#include <set>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/terminal.hpp"
#include "validation/comparison.hpp"

namespace rehearsal::cli {

/// "WHAT a b c and 3 more"; nothing of no names.
void warn_of(const Terminal&, const std::string& what, const std::set<std::string>& names);

/// {"id", "predicted", "error", "evidence"} or {"id", "refused"}.
[[nodiscard]] nlohmann::ordered_json verdict_json(const validation::Verdict&);
[[nodiscard]] nlohmann::ordered_json summary_json(const validation::Summary&);

/// Whose answers are compared, as the results call them.
struct Contestants {
  std::string first, second;
};
/// {"id", "quantity", "measured", FIRST, SECOND}.
[[nodiscard]] nlohmann::ordered_json duel_json(const validation::Duel&, const Contestants&);
[[nodiscard]] nlohmann::ordered_json comparison_json(const validation::AnswerComparison&, const Contestants&);

}  // namespace rehearsal::cli
