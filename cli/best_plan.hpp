#pragma once
#include "base/progress.hpp"
#include "cli/platform_options.hpp"

namespace rehearsal::cli {

/// The quickest plan that fits, found within so many seconds, or the best until somebody asks it to stop. Throws Refusal when none does.
[[nodiscard]] plan::Plan best_plan(const JobSetup&, double seconds, Progress&);

}  // namespace rehearsal::cli
