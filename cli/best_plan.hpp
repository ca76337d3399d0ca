#pragma once
#include <optional>

#include "base/progress.hpp"
#include "cli/platform_options.hpp"

namespace rehearsal::cli {

/// The quickest plan that fits, found within so many seconds, or the best until somebody asks it to stop. Throws Refusal when none does.
/// `ranks`: of the plan; nothing: of as many as are best.
[[nodiscard]] plan::Plan best_plan(const JobSetup&, double seconds, std::optional<int> ranks, Progress&);

}  // namespace rehearsal::cli
