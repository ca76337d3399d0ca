#include "exec/comm/usable_cores.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "base/error.hpp"
#include "base/parse_number.hpp"

namespace rehearsal::exec {
namespace {

/// What tells the core of a processor: the list of all that share it.
std::string siblings_of(std::size_t processor) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(processor) + "/topology/thread_siblings_list");
  std::string line;
  std::getline(file, line);
  return line.empty() ? std::to_string(processor) : line;
}

/// Those that a process may run on (0: this thread); where the system does not say, all.
cpu_set_t allowed_processors(pid_t process = 0) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(process, sizeof allowed, &allowed) == 0) return allowed;
  for (std::size_t p = 0; p < std::max(1U, std::thread::hardware_concurrency()); ++p) CPU_SET(p, &allowed);
  return allowed;
}

template <class MayUse>
int count_cores(std::size_t processors, const MayUse& may_use) {
  std::set<std::string> cores;
  for (std::size_t p = 0; p < processors; ++p)
    if (may_use(p)) cores.insert(siblings_of(p));
  return std::max(1, static_cast<int>(cores.size()));
}

int count_cores(const cpu_set_t& allowed) {
  return count_cores(CPU_SETSIZE, [&](std::size_t p) { return CPU_ISSET(p, &allowed) != 0; });
}

/// What /proc says of a process under this key.
std::string status_of(pid_t process, const std::string& key) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + ":\t")) return line.substr(key.size() + 2);
  return "";
}

/// The process of Open MPI that started this one, perhaps through others such as a shell; 0 where there is none.
pid_t launcher() {
  for (pid_t process = getppid(); process > 1;) {
    const auto name = status_of(process, "Name");
    if (name == "mpirun" || name == "mpiexec" || name == "orterun" || name == "orted") return process;
    process = parse_number<pid_t>(status_of(process, "PPid")).value_or(0);
  }
  return 0;
}

}  // namespace

int cores_of_node() {
  return count_cores(std::max(1U, std::thread::hardware_concurrency()), [](std::size_t) { return true; });
}

int usable_cores() { return count_cores(allowed_processors()); }

int first_usable_processor() {
  const auto allowed = allowed_processors();
  int first = 0;
  while (first < CPU_SETSIZE && CPU_ISSET(static_cast<std::size_t>(first), &allowed) == 0) ++first;
  return first;
}

void leave_binding() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &all);
  (void)sched_setaffinity(0, sizeof all, &all);  // the kernel takes those that there are
}

void leave_default_binding(int ranks) {
  const bool bound = std::getenv("OMPI_MCA_orte_bound_at_launch") != nullptr;
  if (!bound || std::getenv("OMPI_MCA_hwloc_base_binding_policy") != nullptr) return;
  const auto by = launcher();
  if (by == 0) return;
  const auto allowed = allowed_processors(by);
  if (count_cores(allowed) / std::max(1, ranks) > usable_cores()) (void)sched_setaffinity(0, sizeof allowed, &allowed);
}

int threads_asked_for() {
  const char* asked = std::getenv("OMP_NUM_THREADS");
  if (asked == nullptr || *asked == '\0') return 0;
  const std::string text = asked;
  const auto number = parse_number<int>(text.substr(0, text.find(',')));  // others are of nested loops, of which there are none
  if (!number || *number < 1)
    throw BadInput("OMP_NUM_THREADS", "\"" + text + "\" is no number of threads; set it to 1 or more, or to nothing");
  return *number;
}

}  // namespace rehearsal::exec
