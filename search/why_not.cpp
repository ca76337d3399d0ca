#include "search/why_not.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace rehearsal::search {
namespace {

using predict::Assessment;

constexpr double kMatters = 1e-3;  // of the winner's value

struct Cause {
  const char* text;
  double more;  ///< seconds than the winner's
};

/// Parts of a step that add up to it.
std::array<Cause, 6> causes(const Assessment& a, const Assessment& winner) {
  const auto more = [&](auto part) { return (part(a) - part(winner)).value(); };
  const double imbalance = more([](const Assessment& x) { return x.imbalance; });
  return {{{"computing on the limiting rank", more([](const Assessment& x) { return x.breakdown.compute; }) - imbalance},
           {"imbalance between stages", imbalance},
           {"exposed communication", more([](const Assessment& x) { return x.breakdown.exposed_communication; })},
           {"pipeline bubble", more([](const Assessment& x) { return x.breakdown.bubble; })},
           {"recomputing", more([](const Assessment& x) { return x.breakdown.recompute; })},
           {"optimizer", more([](const Assessment& x) { return x.breakdown.optimizer; })}}};
}

std::string largest_cause(const Assessment& a, const Assessment& winner) {
  const auto all = causes(a, winner);
  const auto& most = *std::ranges::max_element(all, {}, &Cause::more);
  if (most.more < kMatters * winner.step.value()) return "";
  return ": " + to_text(Seconds(most.more)) + " a step more of " + most.text;
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
