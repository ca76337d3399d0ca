#pragma once
// Scores of predictions as results, and what of a file of records is left out.

#include <set>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/terminal.hpp"
#include "validation/comparison.hpp"
#include "validation/site_lessons.hpp"

namespace rehearsal::cli {

/// "WHAT a b c and 3 more"; nothing of no names.
void warn_of(const Terminal&, const std::string& what, const std::set<std::string>& names);
/// "; r0: why; r1: why; and 3 others"
[[nodiscard]] std::string reasons_of(std::span<const validation::TaughtNothing>);
/// How many of so many records teach nothing, and why; silent where all do.
void warn_of_nothing(const Terminal&, std::span<const validation::TaughtNothing>, std::size_t records);

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
