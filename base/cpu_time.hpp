#pragma once
// Seconds of processors: steadier than the wall clock on a machine that others use.

#include <time.h>

namespace rehearsal {

[[nodiscard]] inline double cpu_seconds_by(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Of the calling thread.
[[nodiscard]] inline double thread_seconds() { return cpu_seconds_by(CLOCK_THREAD_CPUTIME_ID); }
/// Of all threads of this process.
[[nodiscard]] inline double process_seconds() { return cpu_seconds_by(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace rehearsal
