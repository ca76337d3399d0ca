#pragma once
// While MPI starts, none of our own waiting looks after a rank that stands still: this does.

#include <condition_variable>
#include <iosfwd>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace rehearsal::exec {

/// A process that the launcher of this one started beside it.
struct StartedProcess {
  int rank = 0;
  int process = 0;
  bool stopped = false;  ///< by a signal or a debugger
};

/// The processes of this node that this one's parent started as ranks, this one included; by rank.
[[nodiscard]] std::vector<StartedProcess> processes_of_this_launch();

/// Rank and number of ranks as the launcher left them in the environment; nothing where it did not.
[[nodiscard]] std::optional<int> launched_rank();
[[nodiscard]] std::optional<int> launched_ranks();

/// How long ranks may take to find each other: the stall time that was `given` (at least 20 s) or a minute, and 0.1 s for each of them.
[[nodiscard]] double start_seconds(std::optional<double> given, int ranks);

/// What is said when that time is over: who stands still, as far as this node shows it.
[[nodiscard]] std::string start_complaint(double seconds, const std::vector<StartedProcess>& here);

/// Ends this process with the status of a failing environment, once it has told why, unless it is destroyed within `seconds`.
class StartWatch {
 public:
  StartWatch(double seconds, std::ostream& told);
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable started_;
  bool is_started_ = false;
  std::thread thread_;
};

}  // namespace rehearsal::exec
