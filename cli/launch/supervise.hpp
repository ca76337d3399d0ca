#pragma once
// `launch mpirun --restarts`: starts a training, and starts it again when a rank is lost.

#include <functional>
#include <string>
#include <vector>

#include "cli/launch/launched_job.hpp"
#include "cli/terminal.hpp"

namespace rehearsal::cli {

/// "a:8,b:8"; slots are 1 where none are given. Throws BadInput.
[[nodiscard]] std::vector<Host> hosts_of(const std::string& text);
[[nodiscard]] int slots_of(const std::vector<Host>&);

struct SupervisionOptions {
  int restarts = 0;
  /// A plan file for so many ranks, when fewer are left than the plan wants.
  std::function<std::string(int ranks)> plan_for;
};

/// Returns the exit status of the ranks: a rank that was lost (killed, its node gone, the environment failed) is worth another start,
/// anything else is not. Throws EnvironmentFailure when the restarts are used up. Signals go on to the ranks.
[[nodiscard]] int supervise(LaunchJob, const std::string& program, const SupervisionOptions&, Terminal&);

}  // namespace rehearsal::cli
