#include "cli/launch/placement.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/join.hpp"
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
  constexpr double kDefaultSteps = 10, kSlack = 1.1, kStart = 600;  // seconds to start, to read data, and to save
  const auto assessment = setup.predictor().closed(job.plan.plan);
  warn_of_machine(job, setup.platform(), assessment, terminal);
  job.step_seconds = assessment.step_seconds.high;
  const double steps = job.words.steps ? static_cast<double>(*job.words.steps) : kDefaultSteps;
  job.longest_seconds = steps * job.step_seconds * kSlack + kStart;
}

}  // namespace rehearsal::cli
