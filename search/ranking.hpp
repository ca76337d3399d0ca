#pragma once
// Which of the plans that can run are best, and why each of the others is not.

#include <string>
#include <vector>

#include "predict/assessment.hpp"

namespace rehearsal::search {

/// Throws BadInput when `name` is neither a row of objective_table() nor "pareto".
void require_objective(const std::string& name);

/// The best `top` by an objective, or all of the front for "pareto"; Assessment::why_not is set.
[[nodiscard]] std::vector<predict::Assessment> ranked(std::vector<predict::Assessment> good, const std::string& objective, std::size_t top);

}  // namespace rehearsal::search
