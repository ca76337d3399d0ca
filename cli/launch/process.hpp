#pragma once
// A launcher as a process of this one: started, told to stop, and ended when it hangs behind its ranks.

#include <sys/types.h>

#include <string>
#include <vector>

namespace rehearsal::cli {

/// How programs end, as a shell says it: one that is not there, and (above this, by the number of the signal) one that was killed.
inline constexpr int kNotFound = 127, kKilled = 128;

/// In a process group of its own, without input, and told to end (SIGTERM) when this process ends. Throws EnvironmentFailure where no
/// process can be made.
[[nodiscard]] pid_t start_process(const std::vector<std::string>& words);

/// How a process ended.
struct ProcessEnd {
  int status = 0;     ///< of a program that was killed: kKilled and the number of the signal
  bool hung = false;  ///< was ended because nothing ran below it any more
};
/// Waits for it. What asks this process to stop is passed on once as SIGUSR1, which mpirun hands to its ranks as it is. A launcher whose
/// own processes have all ended, and which is still there five seconds later, is killed: Open MPI 4.1's mpirun may wait for ever when a
/// rank is killed while it connects.
[[nodiscard]] ProcessEnd wait_for_process(pid_t);

}  // namespace rehearsal::cli
