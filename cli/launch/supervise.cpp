#include "cli/launch/supervise.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/parse_number.hpp"
#include "cli/launch/process.hpp"

namespace rehearsal::cli {
namespace {

/// Seconds that mpirun leaves to the ranks beside one that has failed. Those that are told to end, by SIGUSR1, have all the time: they end
/// together, when all is saved.
constexpr long long kPatience = 1;

bool answers(const Host& host) {
  return wait_for_process(start_process({"timeout", "30", "mpirun", "--host", host.name, "-n", "1", "true"})).status == 0;
}

std::string host_list(const std::vector<Host>& hosts) {
  return joined(hosts, ",", [](const Host& h) { return h.name + ":" + std::to_string(h.slots); });
}

std::vector<std::string> words_of(const LaunchJob& job, const std::string& program) {
  auto words = mpirun_words(job, kPatience);
  if (job.hosts.empty())
    words.emplace_back("--oversubscribe");
  else
    words.insert(words.end(), {"--host", host_list(job.hosts)});
  const auto command = command_of(job, program);
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

}  // namespace

std::vector<Host> hosts_of(const std::string& text) {
  std::vector<Host> hosts;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    const auto word = text.substr(at, end - at);
    const auto colon = word.find(':');
    const auto slots = colon == std::string::npos ? std::optional(1) : parse_number<int>(std::string_view(word).substr(colon + 1));
    if (word.substr(0, colon).empty() || !slots || *slots < 1)
      throw BadInput("--hosts " + text, "write names with their slots, such as node1:8,node2:8");
    hosts.push_back({word.substr(0, colon), *slots});
    at = end + 1;
  }
  return hosts;
}

int slots_of(const std::vector<Host>& hosts) {
  int slots = 0;
  for (const auto& host : hosts) slots += host.slots;
  return slots;
}

int supervise(LaunchJob job, const std::string& program, const SupervisionOptions& options, Terminal& terminal) {
  const bool named = !job.hosts.empty();
  for (int restart = 0;; ++restart) {
    const auto [status, hung] = wait_for_process(start_process(words_of(job, program)));
    if (hung) terminal.warn("all ranks have ended, and mpirun did not within 5 s: it was killed");
    const bool killed = status > kKilled;
    if (interrupted()) return killed ? static_cast<int>(ExitStatus::Interrupted) : status;  // the same again goes on
    if (status == kNotFound) throw EnvironmentFailure("mpirun could not be started; is Open MPI installed, and is it on PATH?");
    if (!killed && status != static_cast<int>(ExitStatus::Environment)) return status;
    if (restart == options.restarts)
      throw EnvironmentFailure("a rank was lost (mpirun ended with " + std::to_string(status) + "), and " + std::to_string(restart) +
                               " restarts are used up");
    std::erase_if(job.hosts, [](const Host& host) { return !answers(host); });
    if (interrupted()) return static_cast<int>(ExitStatus::Interrupted);
    if (named && job.hosts.empty()) throw EnvironmentFailure("no host of --hosts answers any more");
    if (const int slots = slots_of(job.hosts); named && slots < job.plan.plan.ranks()) {
      job.plan_file = options.plan_for(slots);
      job.plan = plan::read_plan_file(job.plan_file);
      terminal.say("left are " + host_list(job.hosts) + ": goes on with plan " + plan::to_text(job.plan.plan));
    }
    terminal.say("restart " + std::to_string(restart + 1) + " of " + std::to_string(options.restarts));
  }
}

}  // namespace rehearsal::cli
