#include "cli/launch/placement.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "platforms/catalog.hpp"
#include "predict/assessment.hpp"

namespace rehearsal::cli {
namespace {

/// Whether a name that a plan file has is that platform's; a file that is gone since is none.
bool is_named(const platforms::Platform& platform, const std::string& name) {
  try {
    return platforms::load(name).name == platform.name;
  } catch (const BadInput&) {
    return false;
  }
}

/// That the plan is for another machine, or needs more memory than this one has.
void warn_of_machine(const LaunchJob& job, const platforms::Platform& platform, const predict::Assessment& a, const Terminal& terminal) {
  const auto& words = job.plan.context.searched_on;
  const auto on = words.find("platform");
  if (on != words.end() && on->second.size() == 1 && !is_named(platform, on->second.front()))
    terminal.warn(job.plan_file + " was searched on " + on->second.front() + "; on " + platform.name + " another plan may be quicker");
  if (!a.fits()) terminal.warn("on " + platform.name + " the plan " + predict::shortage(a) + "; `rehearse search` finds one that fits");
}

constexpr const char* kGpuBackend = "cuda";
constexpr double kOldestCapability = 7.5;  ///< that CUDA's compiler still knows (docs/gpu.md)

bool is_processor(const platforms::Device& device) { return device.kind == platforms::DeviceKind::Cpu; }

bool has_kernels(const platforms::Device& device) {
  const auto& capability = device.compute_capability;
  return is_processor(device) || (device.kind == platforms::DeviceKind::Gpu && capability && capability->value >= kOldestCapability);
}

/// What --backend says, or has to say for these devices.
void choose_kernels(LaunchJob& job, const platforms::Platform& platform) {
  auto& backend = job.words.backend;
  if (backend && find_name(*backend, {kGpuBackend})) backend = kGpuBackend;
  const auto& first = platforms::device_of(platform, 0);
  for (int rank = 0; rank < job.plan.plan.ranks() && backend.value_or(kGpuBackend) == kGpuBackend; ++rank) {
    const auto& device = platforms::device_of(platform, rank);
    if (!has_kernels(device))
      throw Refusal(
          "platform " + platform.name + " has " + device.name +
          ", for which rehearse has no kernels: it computes on processors and on NVIDIA's GPUs of compute capability 7.5 and newer "
          "(compute_capability in a platform file). `rehearse export` writes the plan for other frameworks, and --backend auto "
          "trains on the processors of such nodes");
    if (is_processor(device) != is_processor(first))
      throw Refusal("platform " + platform.name +
                    " has processors and GPUs for ranks of this plan, and one --backend computes for all: "
                    "search a plan for devices of one kind");
  }
  if (!backend && !is_processor(first)) {
    backend = kGpuBackend;
    job.options.insert(job.options.end(), {"--backend", kGpuBackend});
  }
  job.on_gpus = backend == kGpuBackend;
}

/// That times are not those of what computes.
void warn_of_kernels(const LaunchJob& job, const platforms::Platform& platform, const Terminal& terminal) {
  const auto& device = platforms::device_of(platform, 0);
  if (job.on_gpus != is_processor(device)) return;
  const auto named = "--backend " + job.words.backend.value_or("auto");
  terminal.warn(job.on_gpus ? named + ": a GPU is asked for each rank, while " + platform.name + " has " + device.name +
                                  ", by which the time limit was predicted"
                            : named + " trains on the processors of the nodes, and the time limit was predicted for " + device.name +
                                  ": it may be far too short");
}

/// A node whose rate nobody says is taken to write 500 MB/s.
double writing_seconds(const predict::CheckpointSize& size, const platforms::Platform& platform) {
  constexpr BytesPerSecond kUsual(5e8);
  const auto& of_node = platform.nodes.front().storage_bandwidth;
  const auto& of_all = platform.storage_bandwidth;
  Seconds seconds(0);
  if (of_node || !of_all) seconds = size.of_node / (of_node ? of_node->value : kUsual);
  if (of_all) seconds = std::max(seconds, size.all / of_all->value);
  return seconds.value();
}

}  // namespace

void place(LaunchJob& job, const platforms::Platform& platform) {
  const int ranks = job.plan.plan.ranks(), devices = platforms::device_count(platform);
  if (ranks > devices)
    throw Refusal("plan " + plan::to_text(job.plan.plan) + " is for " + std::to_string(ranks) + " ranks, and platform " + platform.name +
                  " has " + std::to_string(devices) + " devices; say how many nodes there are (--nodes), or search a plan for fewer");
  job.nodes.clear();
  for (int rank = 0; rank < ranks; rank += job.nodes.back().ranks) {
    const auto& group = platforms::node_of(platform, rank);
    const int here = std::min(group.devices, ranks - rank);
    job.nodes.push_back({group.device.name, here, std::max(1, group.host_cores / here)});
  }
  choose_kernels(job, platform);
}

void require_equal_nodes(const LaunchJob& job, const std::string& launcher) {
  const auto kinds = equal_nodes(job.nodes);
  if (kinds.size() < 2) return;
  const auto text = [](const EqualNodes& kind) {
    return std::to_string(kind.count) + " with " + std::to_string(kind.node.ranks) + " ranks on " + kind.node.device;
  };
  throw Refusal("plan " + plan::to_text(job.plan.plan) + " does not fill equal nodes: " + joined(kinds, ", ", text) + "; launch " +
                launcher + " asks for equal ones. Search a plan that fills nodes of one kind, or take launch mpirun with a hostfile");
}

void take_times(LaunchJob& job, const JobSetup& setup, const Terminal& terminal) {
  constexpr double kDefaultSteps = 10, kSlack = 1.1, kStart = 480;  // seconds to start, and to read data
  const auto assessment = setup.predictor().closed(job.plan.plan);
  const auto& platform = setup.platform_for(job.plan.plan);
  warn_of_machine(job, platform, assessment, terminal);
  warn_of_kernels(job, platform, terminal);
  job.step_seconds = assessment.step_seconds.high;
  const double steps = job.words.steps ? static_cast<double>(*job.words.steps) : kDefaultSteps;
  if (!job.words.checkpoint.empty()) job.save_seconds = writing_seconds(assessment.checkpoint, platform);
  job.longest_seconds = steps * job.step_seconds * kSlack + kStart + static_cast<double>(notice_of(job));
}

}  // namespace rehearsal::cli
