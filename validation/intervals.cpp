#include "validation/intervals.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace rehearsal::validation {
namespace {

constexpr double kCoverage = 0.9;
constexpr std::size_t kFewest = 8, kFewSources = 4;
constexpr double kFewSourcesFactor = 1.2;

struct Weighted {
  double value, weight;
};

double quantile(std::vector<Weighted> values, double share) {
  std::sort(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
  double total = 0, sum = 0;
  for (const auto& v : values) total += v.weight;
  for (const auto& v : values)
    if ((sum += v.weight) >= share * total) return v.value;
  return values.empty() ? 0 : values.back().value;
}

/// Of the normalised residuals of one group, without those of a source ("" leaves none out).
double half_width(const std::vector<FittedQuantity>& quantities, const std::string& group, const std::string& without) {
  std::map<std::string, int> of_source;
  for (const auto& q : quantities)
    if (q.group == group) ++of_source[q.source];
  std::vector<Weighted> values;
  for (const auto& q : quantities)
    if (q.group == group && q.source != without) values.push_back({std::fabs(q.left_out) / q.widening, 1 / std::sqrt(of_source[q.source])});
  if (values.size() < kFewest || of_source.size() < 2) return 0;  // one source says nothing of others
  return quantile(values, kCoverage) * (of_source.size() < kFewSources ? kFewSourcesFactor : 1.0);
}

}  // namespace

double set_intervals(costmodel::FittedEvidence& evidence, const std::vector<FittedQuantity>& quantities) {
  std::set<std::string> groups;
  for (const auto& q : quantities) groups.insert(q.group);
  for (const auto& group : groups) {
    const double q = half_width(quantities, group, "");
    evidence.log_factor[group] = q > 0 ? q : evidence.log_factor.at("default");
  }
  std::map<std::pair<std::string, std::string>, double> without;
  double held = 0;
  for (const auto& q : quantities) {
    const auto [at, fresh] = without.try_emplace({q.group, q.source}, 0.0);
    if (fresh) {
      const double left = half_width(quantities, q.group, q.source);
      at->second = left > 0 ? left : evidence.log_factor.at("default");
    }
    held += std::fabs(q.left_out) <= at->second * q.widening;
  }
  return quantities.empty() ? 0 : held / static_cast<double>(quantities.size());
}

}  // namespace rehearsal::validation
