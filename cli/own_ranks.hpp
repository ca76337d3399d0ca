#pragma once
// Commands that start ranks of themselves, each as a worker that leaves its result in a file.

#include <functional>
#include <string>
#include <vector>

#include "cli/terminal.hpp"
#include "exec/comm/communicator.hpp"

namespace rehearsal::cli {

/// A file's place; what lies there is removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Work of one of the ranks. Those other than rank 0 get a progress that shows nothing.
using RankWork = std::function<void(exec::Communicator& world, Progress&)>;
/// The exit status of this process as a rank; says what failed on `terminal`. `doing` is what its progress is called.
[[nodiscard]] int work_as_rank(Terminal& terminal, const std::string& doing, const RankWork&);

/// Starts this program with `arguments` on so many ranks (0: one per core). Throws EnvironmentFailure when they fail or take longer.
void start_own_ranks(const std::vector<std::string>& arguments, double limit_seconds, int ranks = 0);

}  // namespace rehearsal::cli
