#pragma once
// Published traces of clusters, and what any scheduler writes down: a CSV table with a row for every job.
//
// Columns are found by their names, whichever of these a trace has (capitals and other columns do not matter):
//   devices   devices, num_gpu, num_gpus, gpu_num, gpus
//   arrival   arrival, submit_time, creation_time, submitted                  seconds, or 2023-05-17 11:00:58
//   length    duration, seconds, runtime, run_time                            seconds on the devices it asks for
//             or, from ... to: scheduled_time, start_time to deletion_time, end_time, finish_time
//   name      name, job_id, jobid; else the number of the row
//   user      user, user_id, vc; else the name
//   share     gpu_milli: thousandths of a device, for rows that share one
// Arrivals count from the first one. Jobs go on at a second a step, by themselves as long as the trace says.

#include <iosfwd>
#include <string>
#include <vector>

#include "jobs/job.hpp"

namespace rehearsal::jobs {

struct JobTrace {
  std::vector<JobEntry> jobs;  ///< in order of arrival
  int without_devices = 0;     ///< rows left out: they ask for no device, or for a part of one
  int without_length = 0;      ///< rows left out: they never ran, or have not ended
};

/// Throws BadInput naming line and column, and the columns that are missing.
[[nodiscard]] JobTrace read_job_trace(std::istream&, const std::string& name);
[[nodiscard]] JobTrace read_job_trace_file(const std::string& path);
[[nodiscard]] bool is_job_trace_file(const std::string& path);

}  // namespace rehearsal::jobs
