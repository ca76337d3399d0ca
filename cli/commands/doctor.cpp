// What of Rehearsal works on this machine, tried one by one, for whoever has just installed it or got a message that makes no sense.

#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/commit.hpp"
#include "cli/on_this_machine.hpp"

namespace rehearsal::cli {
namespace {

/// Absent: something that not everybody needs. Doubtful: works, but slowly or not for all. Broken: what the commands need.
enum class Health : std::uint8_t { Good, Absent, Doubtful, Broken };
constexpr std::array<std::string_view, 4> kHealth{"good", "absent", "doubtful", "broken"};

struct Finding {
  Health health = Health::Good;
  std::string found, remedy = {};
};

/// What a shell says to a command, with its status. One that hangs, as launchers may, is ended.
struct Said {
  int status = 0;
  std::string text;
};
Said said(const std::string& command) {
  Said result;
  FILE* pipe = popen(("timeout -k 5 120 " + command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return {127, "no process could be started"};
  std::array<char, 4096> part;
  while (const auto read = std::fread(part.data(), 1, part.size(), pipe)) result.text.append(part.data(), read);
  result.status = pclose(pipe);
  return result;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// The sentence of what a launcher and its ranks said, without frames and empty lines: our own error, or what stands first.
std::string told_by(const std::string& text) {
  if (text.empty()) return "nothing was said within two minutes";
  if (const auto ours = text.find("rehearse: error: "); ours != std::string::npos) return first_line(text.substr(ours));
  std::string told;
  std::istringstream lines(text);
  for (std::string line; told.size() < 300 && std::getline(lines, line);) {
    const auto begin = line.find_first_not_of(" -");
    if (begin != std::string::npos) told += (told.empty() ? "" : " ") + line.substr(begin);
  }
  return told;
}

std::string in_gib(double bytes) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1f GiB", bytes / (1 << 30));
  return text.data();
}

/// The limit in a file of the container's control group; nothing where there is none.
std::optional<double> limit_in(const char* file) {
  std::ifstream in(file);
  double limit = 0;
  if (!(in >> limit)) return {};
  return limit;
}

Finding program() {
  const auto built = commit().empty() ? std::string() : ", commit " + std::string(commit());
  return {Health::Good, "version " REHEARSAL_VERSION + built};
}

Finding cores() {
  const auto count = std::thread::hardware_concurrency();
  std::ifstream in("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  const auto found = std::to_string(count) + " that this process may use";
  if (!(in >> quota >> period) || period <= 0 || quota / period >= count) return {Health::Good, found};
  return {Health::Doubtful, found + ", for the time of " + std::to_string(quota / period).substr(0, 4) + " (cpu.max)",
          "ranks and threads for which there is no time wait for each other: use no more than so many ranks, or raise the limit"};
}

Finding memory() {
  const double all = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  const auto limit = limit_in("/sys/fs/cgroup/memory.max");
  if (!limit || *limit >= all) return {Health::Good, in_gib(all)};
  return {Health::Good, in_gib(*limit) + " of " + in_gib(all) + " (memory.max)"};
}

/// Containers often have 64 MB, in which Open MPI's buffers of a few ranks end with a bus error.
Finding shared_memory() {
  struct statvfs place {};
  if (statvfs("/dev/shm", &place) != 0)
    return {Health::Doubtful, "/dev/shm is not there", "ranks of one machine send over the network card then"};
  const double bytes = static_cast<double>(place.f_bavail) * static_cast<double>(place.f_frsize);
  constexpr double kEnough = 256e6;
  if (bytes >= kEnough) return {Health::Good, in_gib(bytes) + " free in /dev/shm"};
  return {Health::Doubtful, in_gib(bytes) + " free in /dev/shm",
          "ranks of one machine pass messages there: give a container --shm-size=1g"};
}

/// What is made by `make`, or why not.
template <class Make>
Finding tried(Health otherwise, const Make& make) {
  try {
    return {Health::Good, make()};
  } catch (const Error& error) {
    return {otherwise, error.what()};
  }
}

std::string this_program() {
  std::error_code ignored;
  return "'" + std::filesystem::read_symlink("/proc/self/exe", ignored).string() + "'";
}

/// What a command of this program ends with: the simulator is opened when a step is played, and not before.
Finding simulator() {
  const auto step =
      said(this_program() + " simulate 'zoo:resnet18?image=32' --platform xeon-2s-10gbe --batch 8 --plan dp=2 --fidelity full");
  if (step.status == 0) return {Health::Good, "plays a step"};
  return {Health::Broken, told_by(step.text)};
}

Finding kernels_by(const std::string& backend) {
  return tried(Health::Absent, [&backend] {
    std::vector<std::string> warnings;
    std::string found(kernels_of({.backend = backend}, warnings)->name());
    for (const auto& warning : warnings) found += "; " + warning;
    return found;
  });
}

Finding kernels() { return kernels_by("auto"); }

Finding gpu() { return kernels_by("cuda"); }

Finding launcher() {
  const auto version = said("mpirun --version");
  if (version.status != 0)
    return {Health::Absent, "no mpirun: " + first_line(version.text), "several ranks need Open MPI (package openmpi-bin) or MPICH"};
  return {Health::Good, first_line(version.text)};
}

/// The whole way: two processes of this program meet and take one step.
Finding two_ranks() {
  const auto step = said("mpirun -n 2 " + this_program() + " run 'zoo:resnet18?image=32' --batch 4 --steps 1 --data synthetic --plan dp=2");
  if (step.status == 0) return {Health::Good, "take a step together"};
  return {Health::Broken, "do not run: " + told_by(step.text),
          "as root Open MPI wants OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, with one core "
          "OMPI_MCA_rmaps_base_oversubscribe=1"};
}

struct Check {
  std::string_view name;
  Finding (*look)();
  bool starts_ranks = false;
};
constexpr std::array kChecks{
    Check{"program", program},          Check{"cores", cores},     Check{"memory", memory}, Check{"shared memory", shared_memory},
    Check{"simulator", simulator},      Check{"kernels", kernels}, Check{"GPU", gpu},       Check{"launcher", launcher, true},
    Check{"two ranks", two_ranks, true}};

int examine(bool alone, Terminal& terminal) {
  nlohmann::ordered_json result{{"schema", 1}, {"checks", nlohmann::ordered_json::array()}};
  bool broken = false, launches = !alone, trains = true;
  for (const auto& check : kChecks) {
    if (check.starts_ranks && !(launches && trains)) continue;
    const auto finding = check.look();
    if (check.look == launcher) launches = finding.health == Health::Good;
    if (check.look == kernels) trains = finding.health == Health::Good;
    broken = broken || finding.health == Health::Broken;
    auto& row = result["checks"].emplace_back();
    row["check"] = check.name;
    row["state"] = kHealth[static_cast<std::size_t>(finding.health)];
    row["found"] = finding.found;
    if (!finding.remedy.empty()) row["remedy"] = finding.remedy;
  }
  result["works"] = !broken;
  terminal.print(result);
  return static_cast<int>(broken ? ExitStatus::Environment : ExitStatus::Done);
}

}  // namespace

Action add_doctor(CLI::App& app) {
  auto alone = std::make_shared<bool>(false);
  app.add_flag("--alone", *alone, "starts no ranks under mpirun, as is right on a login node");
  return [alone](Terminal& terminal) { return examine(*alone, terminal); };
}

}  // namespace rehearsal::cli
