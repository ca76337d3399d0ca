#include "cli/own_ranks.hpp"

#include <filesystem>
#include <memory>

#include "exec/calibrate.hpp"

namespace rehearsal::cli {

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

int work_as_rank(Terminal& terminal, const std::string& doing, const RankWork& work) {
  exec::MpiSession session(&terminal.err());
  return exec::run_as_rank(
      session,
      [&](exec::Communicator& world) {
        const auto progress = world.rank() == 0 ? terminal.progress(doing) : std::make_unique<Progress>();
        work(world, *progress);
        return 0;
      },
      [&](const std::string& sentence) { terminal.error(sentence); });
}

void start_own_ranks(const std::vector<std::string>& arguments, double limit_seconds, int ranks) {
  exec::run_on_all_cores(std::filesystem::read_symlink("/proc/self/exe").string(), arguments, limit_seconds, ranks);
}

}  // namespace rehearsal::cli
