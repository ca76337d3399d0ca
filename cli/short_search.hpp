#pragma once
// The plan for questions that are about many trainings, where nobody names one.

#include <string_view>

#include "cli/platform_options.hpp"

namespace rehearsal::cli {

/// The best of a few hundred plans by a row of search/objective.hpp. Throws Refusal as search() does.
[[nodiscard]] plan::Plan best_of_few(JobSetup&, std::string_view objective);

}  // namespace rehearsal::cli
