#pragma once
#include "cli/platform_options.hpp"

namespace rehearsal::cli {

/// The quickest plan that fits, found within so many seconds. Throws Refusal when none does.
[[nodiscard]] plan::Plan best_plan(const JobSetup&, double seconds);

}  // namespace rehearsal::cli
