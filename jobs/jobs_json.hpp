#pragma once
// Files of jobs. jobs/schema/jobs.schema.json is the published schema.

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "jobs/job.hpp"

namespace rehearsal::jobs {

/// In order of arrival; jobs of "arrivals" are drawn (jobs/job_arrivals.hpp). Throws BadInput naming file, path and key, and what would be
/// right.
[[nodiscard]] std::vector<JobEntry> read_jobs(const nlohmann::json& value, const std::string& where);
[[nodiscard]] std::vector<JobEntry> read_jobs_file(const std::string& path);

/// The text of the published JSON Schema (draft 7).
[[nodiscard]] std::string_view jobs_schema();

}  // namespace rehearsal::jobs
