#include "cli/measurements.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/join.hpp"
#include "costmodel/measured_device.hpp"

namespace rehearsal::cli {
namespace {

using costmodel::Likeness;

/// Of measurements that say nothing about such a question.
[[noreturn]] void refuse_machine(const std::string& path, const std::string& what, const std::string& instead) {
  throw BadInput("--machine " + path, "holds " + what + "; " + instead);
}

std::string how_to_measure(platforms::DeviceKind kind) {
  if (kind == platforms::DeviceKind::Accelerator) return "leave --machine out, since `rehearse calibrate` measures processors and GPUs";
  return std::string("`rehearse calibrate ") + (kind == platforms::DeviceKind::Gpu ? "--backend cuda " : "") +
         "-o FILE` on such a device measures it, or leave --machine out";
}

}  // namespace

std::vector<costmodel::Calibration> measured_for(const std::string& machine, const platforms::Platform& platform,
                                                 std::vector<std::string>& warnings) {
  if (machine.empty()) return std::vector<costmodel::Calibration>(platform.nodes.size());
  const auto calibration = costmodel::read_calibration(machine);
  const auto measured = costmodel::identity_of(calibration.context);
  std::vector<costmodel::Calibration> all;
  std::set<std::string> foreign, akin;
  for (const auto& group : platform.nodes) {
    const auto of = likeness(measured, costmodel::identity_of(group.device));
    if (of == Likeness::Foreign) foreign.insert(group.device.name);
    if (of == Likeness::Akin) akin.insert(group.device.name);
    all.push_back(of == Likeness::Foreign ? costmodel::Calibration{} : calibration);
  }
  const auto& first = platform.nodes.front().device;
  if (std::ranges::all_of(platform.nodes, [&](const auto& group) { return foreign.contains(group.device.name); }))
    refuse_machine(machine, "measurements of " + measured.text() + " and none of " + joined(foreign), how_to_measure(first.kind));
  const auto warning = "--machine " + machine + ": was measured on " + measured.text();
  if (!foreign.empty())
    warnings.push_back(warning + "; what " + joined(foreign) + " of platform " + platform.name + " takes is as datasheets say");
  if (!akin.empty())
    warnings.push_back(warning + ", and platform " + platform.name + " has " + joined(akin) + ": kernels are taken to be as quick there");
  return all;
}

bool knows_devices(const costmodel::Site& site, const platforms::Platform& platform) {
  return std::ranges::any_of(platform.nodes, [&](const platforms::NodeGroup& group) { return site.knows(group.device.name); });
}

costmodel::Site site_for(const std::string& machine, const platforms::Platform& platform, const costmodel::FrameworkProfile& framework) {
  if (machine.empty()) return {};
  auto site = costmodel::read_site(machine);
  if (site.corrections.empty())
    refuse_machine(machine, "no runs of a framework such as " + framework.name,
                   "`rehearse learn RECORDS --into " + machine + "` adds some, or use --framework rehearse");
  if (knows_devices(site, platform)) return site;
  std::set<std::string> devices;
  for (const auto& c : site.corrections) devices.insert(c.device);
  refuse_machine(machine, "runs on " + joined(devices) + " and none on " + platform.nodes.front().device.name,
                 "learn from records of such a device, or leave --machine out");
}

}  // namespace rehearsal::cli
