#pragma once
#include <string>
#include <vector>

namespace rehearsal::cli {

/// Throws what `rehearse run PLAN OPTIONS` would throw for a value of an option. Files may lie where the job runs, and are not looked at
/// but for the plan. The options are known ones. A build that predicts only (predicts_only.cpp) takes all values.
void require_run_values(const std::string& plan_file, const std::vector<std::string>& options);

}  // namespace rehearsal::cli
