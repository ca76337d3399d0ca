#pragma once
#include <string>

#include "search/objective.hpp"

namespace rehearsal::search {

/// Why the winner is better: how much more the plan takes of what is wanted, and the part of its step in which it loses most. Names no
/// part below 0.1 % of the winner's step. `by`: nullptr for a plan of a front, which is compared in time.
[[nodiscard]] std::string why_not(const predict::Assessment& plan, const predict::Assessment& winner, const ObjectiveRow* by);

}  // namespace rehearsal::search
