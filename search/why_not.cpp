#include "search/why_not.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

namespace rehearsal::search {
namespace {

using predict::Assessment;

constexpr double kMatters = 1e-3;  // of the winner's value

struct Cause {
  std::string_view text;
  Seconds more;  ///< than the winner's
};

/// Parts of a step that add up to it. What the limiting rank computes more than the others have in the mean is imbalance.
std::vector<Cause> causes(const Assessment& a, const Assessment& winner) {
  const auto imbalance = a.imbalance - winner.imbalance;
  std::vector<Cause> all{{"imbalance between stages", imbalance}};
  for (const auto& part : predict::kBreakdownParts) {
    const auto more = a.breakdown.*part.seconds - winner.breakdown.*part.seconds;
    all.push_back({part.name, part.seconds == &predict::Breakdown::compute ? more - imbalance : more});
  }
  return all;
}

std::string largest_cause(const Assessment& a, const Assessment& winner) {
  const auto all = causes(a, winner);
  const auto& most = *std::ranges::max_element(all, {}, &Cause::more);
  if (most.more < winner.step * kMatters) return "";
  return ": " + to_text(most.more) + " a step more of " + std::string(most.text);
}

/// Where two are as good: what else tells them apart.
std::string tie(const Assessment& a, const Assessment& winner) {
  const auto bytes = a.memory_bytes - winner.memory_bytes;
  if (std::abs(static_cast<double>(bytes)) < kMatters * static_cast<double>(winner.memory_bytes)) return "as good";
  return "as good, with " + to_text(Bytes(std::abs(static_cast<double>(bytes)))) + (bytes > 0 ? " more" : " less") + " memory";
}

}  // namespace

std::string why_not(const Assessment& a, const Assessment& winner, const ObjectiveRow* by) {
  const auto& row = by != nullptr ? *by : objective_table().front();
  const double more = row.value(a) / row.value(winner) - 1;
  const std::string start = by != nullptr ? "" : "on the front: ";
  if (std::abs(more) < kMatters) return start + tie(a, winner);
  char text[160];
  std::snprintf(text, sizeof text, "%.1f %% %s %.*s", 100 * std::abs(more), more > 0 ? "more" : "less", static_cast<int>(row.noun.size()),
                row.noun.data());
  return start + text + (row.name == "memory" ? "" : largest_cause(a, winner));
}

}  // namespace rehearsal::search
