#include "validation/left_out.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace rehearsal::validation {
namespace {

using Keeps = std::function<bool(const FittedQuantity&)>;

constexpr std::size_t kFewSources = 4;
constexpr double kFewSourcesFactor = 1.2;
constexpr double kLargestError = 1;  // of those that intervals are drawn to: one run that went wrong says little of others

/// Of the normalised residuals of one group; 0 where they are too few.
double half_width_of(const std::vector<FittedQuantity>& quantities, const std::string& group, const Keeps& keeps) {
  std::map<std::string, int> of_source;
  for (const auto& q : quantities)
    if (q.group == group) ++of_source[q.source];
  std::vector<Weighted> values;
  for (const auto& q : quantities)
    if (q.group == group && keeps(q)) values.push_back({std::fabs(q.left_out) / q.widening, 1 / std::sqrt(of_source[q.source])});
  if (values.size() < kFewestQuantities || of_source.size() < 2) return 0;  // one source says nothing of others
  return weighted_quantile(std::move(values), kCoverage) * (of_source.size() < kFewSources ? kFewSourcesFactor : 1.0);
}

std::vector<costmodel::SeenKind> kinds_of(const std::vector<FittedQuantity>& quantities, const Keeps& keeps) {
  std::map<std::array<std::string, costmodel::kNamedNovelties>, costmodel::SeenKind> kinds;
  for (const auto& q : quantities) {
    if (!is_time_group(q.group) || q.traits.framework_assumed || !keeps(q)) continue;
    auto& seen = kinds[q.traits.names];
    seen.traits.names = q.traits.names;
    seen.traits.devices = std::max(seen.traits.devices, q.traits.devices);
    seen.traits.parameters = std::max(seen.traits.parameters, q.traits.parameters);
    ++seen.times;
    seen.error += std::pow(std::min(kLargestError, std::fabs(q.left_out) / q.widening), 2);
  }
  std::vector<costmodel::SeenKind> rows;
  for (auto& [names, seen] : kinds) {
    seen.error = std::sqrt(seen.error / seen.times);
    rows.push_back(std::move(seen));
  }
  return rows;
}

const std::string& name_by(const FittedQuantity& q, std::size_t novelty) {
  return novelty < costmodel::kNamedNovelties ? q.traits.names[novelty] : q.source;
}

}  // namespace

double weighted_quantile(std::vector<Weighted> values, double share) {
  std::sort(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
  double total = 0, sum = 0;
  for (const auto& v : values) total += v.weight;
  for (const auto& v : values)
    if ((sum += v.weight) >= share * total) return v.value;
  return values.empty() ? 0 : values.back().value;
}

double upper_quantile(std::vector<double> values, double share) {
  constexpr double kRounding = 1e-9;
  std::ranges::sort(values);
  const auto at = std::ceil(share * static_cast<double>(values.size()) - kRounding);
  return values[static_cast<std::size_t>(std::max(1.0, at)) - 1];
}

costmodel::FittedEvidence evidence_without(const std::vector<FittedQuantity>& quantities, const costmodel::FittedEvidence& like,
                                           const Keeps& keeps) {
  auto evidence = like;
  std::set<std::string> groups;
  for (const auto& q : quantities) groups.insert(q.group);
  for (const auto& group : groups) {
    const double width = half_width_of(quantities, group, keeps);
    evidence.log_factor[group] = width > 0 ? width : like.log_factor.at("default");
  }
  evidence.kinds = kinds_of(quantities, keeps);
  return evidence;
}

std::vector<LeaveOutTurn> turns_by(const std::vector<FittedQuantity>& quantities, std::string_view by, Asked asked) {
  const auto novelty = static_cast<std::size_t>(std::ranges::find(costmodel::kNoveltyNames, by) - costmodel::kNoveltyNames.begin());
  std::set<std::string> names;
  for (const auto& q : quantities)
    if ((asked == Asked::Everything || is_time_group(q.group)) && !name_by(q, novelty).empty()) names.insert(name_by(q, novelty));
  std::vector<LeaveOutTurn> turns;
  for (const auto& name : names)
    turns.push_back(
        {name, [name, novelty](const FittedQuantity& q) { return name_by(q, novelty) != name; },
         [name, novelty, asked](const FittedQuantity& q) {
           return name_by(q, novelty) == name && (asked == Asked::Everything || is_time_group(q.group));
         },
         [novelty](const FittedQuantity& q) { return std::fabs(novelty < costmodel::kNamedNovelties ? q.without[novelty] : q.left_out); }});
  return turns;
}

std::vector<Overrun> overruns_of(const LeaveOutTurn& turn, const costmodel::FittedEvidence& like,
                                 const std::vector<FittedQuantity>& quantities) {
  std::vector<Overrun> overruns;
  if (std::ranges::none_of(quantities, turn.asks)) return overruns;
  const auto evidence = evidence_without(quantities, like, turn.keeps);
  for (const auto& q : quantities) {
    if (!turn.asks(q)) continue;
    const bool time = is_time_group(q.group);
    const double width = q.widening * (time ? evidence.half_width(q.group, q.traits) : evidence.of(q.group));
    const bool alike = std::ranges::any_of(evidence.kinds, [&](const auto& seen) { return differences(seen.traits, q.traits) == 0; });
    overruns.push_back({&q, width, turn.error(q) / width, alike});
  }
  return overruns;
}

}  // namespace rehearsal::validation
