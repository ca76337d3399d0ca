#include "exec/calibrate.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "exec/bench/bench_machine.hpp"
#include "exec/bench/link_bench.hpp"
#include "exec/bench/measured.hpp"
#include "exec/bench/storage.hpp"
#include "exec/comm/usable_cores.hpp"
#include "exec/host/cpu_backend.hpp"
#include "exec/timed_kernels.hpp"
#include "platforms/json.hpp"

namespace rehearsal::exec {
namespace {

/// Shares of the budget.
constexpr double kCoreShare = 0.06, kLinkShare = 0.12, kKernelShare = 0.5, kThreadShare = 0.17, kChoiceShare = 0.05;
constexpr std::size_t kLeastRounds = 1;  ///< that are finished even when the time is over: a share of the kernels alone would fit nothing

/// Makes the kernels of the sweep, as many as fit into `bytes`.
std::vector<bench::Measured> prepared(const CpuBackend& backend, const CalibrationBudget& budget, int threads, Bytes room) {
  std::vector<bench::Measured> kernels;
  for (const auto& c : bench::sweep(budget.thorough)) {
    kernels.emplace_back(c, backend, threads);
    room -= Bytes(static_cast<double>(kernels.back().bytes()));
    if (room.value() < 0) break;
  }
  return kernels;
}

/// Rounds through all kernels until the time is over: repetitions of one kernel lie far apart, and between them the caches are
/// overwritten. `over(seconds so far)` decides, so that all ranks stop together.
template <class Over>
void measure(std::vector<bench::Measured>& kernels, Progress& progress, double seconds, const Over& over) {
  const double begin = now_seconds();
  do {
    for (auto& k : kernels) k.run();
    progress.advance("s of kernels", std::min(seconds, now_seconds() - begin), seconds);
  } while (!over(now_seconds() - begin) && !progress.stop_requested());
}

/// All ranks' runs of every kernel, on rank 0.
std::vector<costmodel::Sample> gathered(Communicator& world, const std::vector<bench::Measured>& kernels) {
  std::vector<costmodel::Sample> samples;
  for (const auto& k : kernels) {
    const auto own = std::span(k.runs()).subspan(std::min<std::size_t>(1, k.runs().size()));  // the first makes machine code
    std::vector<bench::MeasuredRun> all;
    for (const auto& bytes : world.gather({reinterpret_cast<const char*>(own.data()), own.size_bytes()})) {
      const auto at = all.size();
      all.resize(at + bytes.size() / sizeof(bench::MeasuredRun));
      if (!bytes.empty()) std::memcpy(all.data() + at, bytes.data(), bytes.size());
    }
    if (!all.empty()) samples.push_back(bench::sample_of(k.kernel(), all));
  }
  return samples;
}

/// Kernels are measured for all nodes together: throws unless they are of one kind.
void require_equal_nodes(Communicator& world, const costmodel::MachineContext& context) {
  const auto kind = context.item("cores") + " cores of " + context.item(costmodel::kCpuItem), host = context.item("host");
  const auto all = world.gather(kind + "\n" + host);
  for (const auto& other : all) {
    const auto line = other.find('\n');
    if (other.substr(0, line) == kind) continue;
    throw Refusal("calibrate: node " + other.substr(line + 1) + " has " + other.substr(0, line) + ", node " + host + " " + kind +
                  "; calibrate nodes of one kind together, and put the files together by hand");
  }
}

}  // namespace

void refuse_debug_build() {
#ifndef NDEBUG
  throw Refusal("this build is not optimised: times of its kernels would mean nothing; use the release build");
#endif
}

CalibrationResult calibrate_together(Communicator& world, const CalibrationBudget& budget, Progress& progress) {
  refuse_debug_build();
  CalibrationResult result;
  auto& c = result.calibration;
  c.context = bench::describe_machine();
  require_equal_nodes(world, c.context);
  c.context.items["ranks"] = std::to_string(world.size()) + (world.nodes() > 1 ? " on " + std::to_string(world.nodes()) + " nodes" : "");
  world.barrier();
  auto limits = bench::measure_core(budget.seconds * kCoreShare);
  const CpuBackend backend("onednn");
  limits.bf16 = bench::product_rate(backend, DType::BF16);
  limits.f16 = bench::product_rate(backend, DType::F16);
  c.link_samples = bench::measure_links(world, budget.seconds * kLinkShare);
  auto kernels = prepared(backend, budget, 1, bench::memory_to_measure_in() / static_cast<double>(world.local_size()));
  world.barrier();
  const double seconds = budget.seconds * kKernelShare;
  measure(kernels, progress, seconds, [&](double elapsed) { return world.max(elapsed) >= seconds; });
  c.samples = gathered(world, kernels);
  kernels.clear();  // makes room
  const auto nodes = nodes_with_choice(bench::sweep(budget.thorough), backend, 1);
  c.choices = timed_choices(backend, nodes, {1, budget.seconds * kChoiceShare, &world}, progress);
  c.link.reduction = limits.reduction;
  if (world.local_size() < 2) c.link.latency = Seconds(1e-6), c.link.bandwidth = limits.memory / 2.0;
  costmodel::fit(c);
  result.platform = bench::platform_of(limits, c, {world.nodes(), world.local_size()});
  return result;
}

void calibrate_threads(costmodel::Calibration& calibration, const CalibrationBudget& budget, Progress& progress) {
  refuse_debug_build();
  const int threads = cores_of_node();
  if (threads < 2) return;
  const CpuBackend backend("onednn");
  auto kernels = prepared(backend, {budget.seconds, false}, threads, bench::memory_to_measure_in());
  const double seconds = budget.seconds * kThreadShare;
  const double begin = now_seconds();
  for (std::size_t round = 0; now_seconds() - begin < seconds; ++round) {
    for (auto& k : kernels) {
      if (round > kLeastRounds && now_seconds() - begin >= seconds) break;
      k.run();
    }
    progress.advance("s of kernels on all cores", std::min(seconds, now_seconds() - begin), seconds);
    if (progress.stop_requested()) break;
  }
  for (const auto& k : kernels)
    if (k.runs().size() > 1) calibration.samples.push_back(bench::sample_of(k.kernel(), std::span(k.runs()).subspan(1)));
  costmodel::fit(calibration);
  kernels.clear();  // makes room
  const auto nodes = nodes_with_choice(bench::sweep(false), backend, threads);
  calibration.choices.take(timed_choices(backend, nodes, {threads, budget.seconds * kChoiceShare}, progress));
}

void calibrate_storage(platforms::Platform& platform, const std::string& folder, double seconds, Progress& progress) {
  const auto limits = bench::measure_storage(folder, seconds, progress);
  const auto measured = "measured by rehearse calibrate: " + std::to_string(limits.files) + " files of " + folder + ", ";
  const platforms::Sourced<BytesPerSecond> bandwidth(limits.bandwidth, measured + "16 threads of one node or more reading");
  const platforms::Sourced<Seconds> latency(limits.latency, measured + "opening one and its first 4 kB");
  const bool shared = platforms::node_count(platform) > 1;
  for (auto& group : platform.nodes) {
    auto& storage = group.storage ? *group.storage : group.storage.emplace();
    (shared ? storage.bandwidth : storage.disk_bandwidth) = bandwidth;
    if (!shared) storage.disk_latency = latency;
    if (limits.decoding) storage.decoding = {*limits.decoding, measured + "JPEG to 224 x 224 on all cores"};
  }
  if (!shared) return;
  if (!platform.storage) platform.storage.emplace();
  platform.storage->latency = latency;
}

namespace {

[[noreturn]] void become(const std::vector<std::string>& command) {
  for (const auto* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT",
                           "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_mpi_yield_when_idle"})
    setenv(name, "1", 1);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  std::vector<char*> words;
  for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  _exit(127);
}

/// Status of the process, which is ended when the time is over.
int wait_for(pid_t child, double limit_seconds) {
  const double end = now_seconds() + limit_seconds;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (now_seconds() > end) {
      kill(child, SIGTERM);
      waitpid(child, &status, 0);
      throw EnvironmentFailure("the ranks started with mpirun took longer than " + to_text(Seconds(limit_seconds)));
    }
    usleep(20000);
  }
  return status;
}

}  // namespace

void run_on_all_cores(const std::string& program, const std::vector<std::string>& arguments, double limit_seconds, int ranks) {
  const int started = ranks > 0 ? ranks : cores_of_node();
  std::vector<std::string> command = {"mpirun", "--oversubscribe", "-n", std::to_string(started), program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const pid_t child = fork();
  if (child < 0) throw EnvironmentFailure(std::string("no process could be started: ") + std::strerror(errno));
  if (child == 0) become(command);
  const int status = wait_for(child, limit_seconds);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    throw EnvironmentFailure("mpirun is not on the PATH; install an MPI such as Open MPI");
  throw EnvironmentFailure("the ranks started with mpirun failed; what they said stands above");
}

std::string machine_json_text(const CalibrationResult& result) {
  nlohmann::ordered_json j;
  j["schema"] = 1;
  j["platform"] = nlohmann::ordered_json::parse(platforms::to_json_text(result.platform));
  j["calibration"] = nlohmann::ordered_json::parse(costmodel::to_json_text(result.calibration));
  return j.dump(1) + '\n';
}

}  // namespace rehearsal::exec
