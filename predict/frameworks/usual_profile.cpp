#include "predict/frameworks/usual_profile.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "costmodel/constants.hpp"
#include "predict/frameworks/flow.hpp"

namespace rehearsal::predict::frameworks {
namespace {

std::string times_text(int times) { return times == 1 ? "1 published time" : std::to_string(times) + " published times"; }

std::string error_text(double median) { return "median error " + std::to_string(std::lround(100 * median)) + " %"; }

}  // namespace

bool is_sharded(const plan::Plan& plan) {
  constexpr int kParametersToo = 3;
  return plan.zero == kParametersToo && plan.tp == 1 && plan.pp == 1;
}

costmodel::ModelKind kind_of(const graph::Graph& forward, const plan::Plan& plan) {
  const Flow flow(forward);
  if (std::ranges::none_of(flow.cores(), &AttentionCore::causal)) return costmodel::ModelKind::Other;
  return is_sharded(plan) ? costmodel::ModelKind::ShardedDecoder : costmodel::ModelKind::Decoder;
}

const costmodel::FrameworkProfile& usual_framework(const platforms::Platform& platform, costmodel::ModelKind kind, int ranks) {
  std::map<std::string, int> devices;
  for (const auto& group : platform.nodes) {
    const int own = std::min(ranks, group.count * group.devices);
    if (own > 0) devices[costmodel::usual_framework(group.device, kind).name] += own;
    ranks -= own;
  }
  const auto most = std::ranges::max_element(devices, {}, [](const auto& entry) { return entry.second; });
  return *costmodel::find_framework(most->first);
}

std::vector<const costmodel::FrameworkProfile*> usual_frameworks(const platforms::Platform& platform, const graph::Graph& forward) {
  using Kind = costmodel::ModelKind;
  const auto usual = kind_of(forward);
  std::vector<const costmodel::FrameworkProfile*> all;
  for (const auto kind : usual == Kind::Other ? std::vector{usual} : std::vector{Kind::Decoder, Kind::ShardedDecoder})
    for (const auto& group : platform.nodes) {
      const auto* one = &costmodel::usual_framework(group.device, kind);
      if (std::ranges::find(all, one) == all.end()) all.push_back(one);
    }
  return all;
}

std::vector<const costmodel::FrameworkProfile*> others_seen_on(const platforms::Platform& platform, costmodel::ModelKind kind, int ranks) {
  using Kind = costmodel::ModelKind;
  const auto usual = [](const costmodel::FrameworkProfile& profile, Kind k) {
    return !profile.usual_on[static_cast<std::size_t>(k)].empty();
  };
  const auto decodes = [&](const auto& profile) { return usual(profile, Kind::Decoder) || usual(profile, Kind::ShardedDecoder); };
  const auto trains = [&](const costmodel::FrameworkProfile& profile) {
    return kind == Kind::Other ? usual(profile, kind) || !decodes(profile) : decodes(profile);
  };  // profiles that are usual for nothing are of images and encoders
  std::vector<std::tuple<bool, int, const costmodel::FrameworkProfile*>> found;
  for (const auto& seen : costmodel::published_constants().evidence.runs) {
    const auto* profile = costmodel::find_framework(seen.framework);
    if (profile == nullptr || seen.device != platforms::device_of(platform, 0).name || !trains(*profile)) continue;
    if (profile != &usual_framework(platform, kind, ranks)) found.emplace_back(usual(*profile, kind), seen.times, profile);
  }
  std::ranges::stable_sort(found, std::greater(), [](const auto& entry) { return std::pair(std::get<0>(entry), std::get<1>(entry)); });
  std::vector<const costmodel::FrameworkProfile*> others;
  for (const auto& [same_kind, times, profile] : found) others.push_back(profile);
  return others;
}

namespace {

/// On this device; nullptr where there are none.
const costmodel::SeenRuns* seen_on(const std::string& framework, const platforms::Device& device) {
  const auto& runs = costmodel::published_constants().evidence.runs;
  const auto at = std::ranges::find_if(runs, [&](const auto& seen) { return seen.framework == framework && seen.device == device.name; });
  return at == runs.end() ? nullptr : &*at;
}

std::string seen_text(const costmodel::SeenRuns& seen) {
  return times_text(seen.times) + " of " + seen.framework + " on " + seen.device + ", " + error_text(seen.median_error);
}

}  // namespace

Grounds grounds_of(const costmodel::FrameworkProfile& profile, const platforms::Device& device) {
  if (&profile == &costmodel::own_framework())
    return {0, 0, "kernels and messages as this program runs them, measured where a calibration is given"};
  if (const auto* seen = seen_on(profile.name, device)) return {seen->times, seen->median_error, seen_text(*seen)};
  if (const auto* seen = seen_on(profile.product(), device))
    return {seen->times, seen->median_error, seen_text(*seen) + "; none there of its release " + profile.name};
  Grounds grounds;
  double errors = 0;
  for (const auto& seen : costmodel::published_constants().evidence.runs) {
    if (seen.framework != profile.name) continue;
    grounds.times += seen.times;
    errors += seen.times * seen.median_error;
  }
  if (grounds.times > 0) grounds.median_error = errors / grounds.times;
  grounds.sentence = grounds.times > 0 ? times_text(grounds.times) + " of " + profile.name + " on other devices, " +
                                             error_text(grounds.median_error) + "; none on " + device.name
                                       : "no published time of " + profile.name + "; its profile rests on " + profile.source;
  return grounds;
}

Grounds grounds_of(const costmodel::FrameworkProfile& profile, const platforms::Platform& platform) {
  const auto known = [&](const platforms::NodeGroup& group) {
    const auto* seen = seen_on(profile.name, group.device);
    if (seen == nullptr) seen = seen_on(profile.product(), group.device);
    return std::pair(seen == nullptr ? 0 : seen->times, group.device.name);
  };
  return grounds_of(profile, std::ranges::min_element(platform.nodes, {}, known)->device);
}

}  // namespace rehearsal::predict::frameworks
