#pragma once
// Scores of predictions as results.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "validation/comparison.hpp"

namespace rehearsal::cli {

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
