#pragma once
#include <time.h>

namespace rehearsal {

/// CPU seconds of the calling thread: steadier than the wall clock on a machine that others use.
[[nodiscard]] inline double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace rehearsal
