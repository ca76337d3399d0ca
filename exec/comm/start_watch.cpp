#include "exec/comm/start_watch.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>

#include "base/error.hpp"
#include "base/parse_number.hpp"
#include "base/units.hpp"
#include "exec/comm/stall.hpp"

namespace rehearsal::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kRankVariables{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
constexpr std::array<std::string_view, 3> kRanksVariables{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};

template <std::size_t N>
std::optional<int> first_number(const std::array<std::string_view, N>& variables) {
  for (const auto variable : variables)
    if (const char* text = std::getenv(std::string(variable).c_str()))
      if (const auto number = parse_number<int>(text)) return number;
  return std::nullopt;
}

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// The rank in a process's environment (entries end in zeros), as proc(5) shows it to the user whose process it is.
std::optional<int> rank_of_process(const fs::path& process) {
  std::istringstream entries(contents(process / "environ"));
  for (std::string entry; std::getline(entries, entry, '\0');)
    for (const auto variable : kRankVariables)
      if (entry.starts_with(std::string(variable) + "=")) return parse_number<int>(entry.substr(variable.size() + 1));
  return std::nullopt;
}

}  // namespace

std::optional<int> launched_rank() { return first_number(kRankVariables); }
std::optional<int> launched_ranks() { return first_number(kRanksVariables); }

double start_seconds(std::optional<double> given, int ranks) {
  constexpr double kLeast = 20, kOfEachRank = 0.1;
  return std::max(kLeast, given.value_or(StallTime().seconds())) + kOfEachRank * ranks;
}

std::vector<StartedProcess> processes_of_this_launch() {
  std::vector<StartedProcess> found;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator("/proc", failed)) {
    const auto process = parse_number<int>(entry.path().filename().string());
    if (!process) continue;
    const std::string stat = contents(entry.path() / "stat");  // "number (name) state parent ..."; a name may hold anything
    const auto end_of_name = stat.rfind(')');
    if (end_of_name == std::string::npos) continue;
    std::istringstream rest(stat.substr(end_of_name + 1));
    char state = 0;
    int parent = 0;
    rest >> state >> parent;
    if (parent != ::getppid()) continue;
    if (const auto rank = rank_of_process(entry.path())) found.push_back({*rank, *process, state == 'T' || state == 't'});
  }
  std::ranges::sort(found, {}, &StartedProcess::rank);
  return found;
}

std::string start_complaint(double seconds, const std::vector<StartedProcess>& here) {
  std::string stopped;
  for (const auto& p : here)
    if (p.stopped)
      stopped += (stopped.empty() ? "rank " : ", rank ") + std::to_string(p.rank) + " (process " + std::to_string(p.process) + ")";
  const std::string who = stopped.empty() ? "all ranks of this node are alive, so one of another node does not answer, or the network "
                                            "between the nodes lets nothing through"
                                          : stopped + " is stopped";
  return "MPI has not started within " + to_text(Seconds(seconds)) + ": " + who + ". REHEARSAL_STALL_SECONDS sets how long is waited";
}

StartWatch::StartWatch(double seconds, std::ostream& told) {
  thread_ = std::thread([this, seconds, &told] {
    std::unique_lock lock(mutex_);
    // What one cause does to several ranks is said by the lowest: its end ends the others while they still wait here.
    const double pause = std::min(0.3 * launched_rank().value_or(0), 2.4);
    if (started_.wait_for(lock, std::chrono::duration<double>(seconds + pause), [this] { return is_started_; })) return;
    told << start_complaint(seconds, processes_of_this_launch()) + "\n" << std::flush;
    ::_exit(static_cast<int>(ExitStatus::Environment));
  });
}

StartWatch::~StartWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_started_ = true;
  }
  started_.notify_all();
  thread_.join();
}

}  // namespace rehearsal::exec
