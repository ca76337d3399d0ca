#include "search/ranking.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/error.hpp"
#include "search/search.hpp"

namespace rehearsal::search {
namespace {

constexpr const char* kPareto = "pareto";
constexpr std::array kObjectives{
    ObjectiveRow{"time", "seconds of a step", [](const predict::Assessment& a) { return a.step.value(); }, "time"},
    ObjectiveRow{"energy", "joules of a step at the meter", [](const predict::Assessment& a) { return a.cost.energy.value(); }, "energy"},
    ObjectiveRow{"cost", "dollars of a step", [](const predict::Assessment& a) { return a.cost.money.value(); }, "money"},
    ObjectiveRow{"memory", "bytes of the fullest rank", [](const predict::Assessment& a) { return static_cast<double>(a.memory_bytes); },
                 "memory"},
};

const ObjectiveRow& row_of(const std::string& name) {
  for (const auto& row : kObjectives)
    if (row.name == name) return row;
  throw BadInput("--objective", "\"" + name + "\" is unknown; use time, energy, cost, memory or pareto");
}

bool dominates(const predict::Assessment& a, const predict::Assessment& b) {
  bool better = false;
  for (const auto& row : kObjectives) {
    if (row.value(a) > row.value(b)) return false;
    better = better || row.value(a) < row.value(b);
  }
  return better;
}

/// The part of the step in which the plan loses most against the winner.
std::string largest_loss(const predict::Assessment& a, const predict::Assessment& winner) {
  const std::pair<const char*, double> parts[] = {
      {"more computing per rank", a.breakdown.compute.value() - winner.breakdown.compute.value()},
      {"exposed communication", a.breakdown.exposed_communication.value() - winner.breakdown.exposed_communication.value()},
      {"pipeline bubble", a.breakdown.bubble.value() - winner.breakdown.bubble.value()},
      {"optimizer", a.breakdown.optimizer.value() - winner.breakdown.optimizer.value()},
  };
  const auto most = std::max_element(std::begin(parts), std::end(parts), [](const auto& x, const auto& y) { return x.second < y.second; });
  if (most->second <= 0) return "";
  return ": " + to_text(Seconds(most->second)) + " a step more of " + most->first;
}

std::string why_not(const predict::Assessment& a, const predict::Assessment& winner, const ObjectiveRow& by) {
  const double ratio = by.value(a) / by.value(winner);
  char text[160];
  std::snprintf(text, sizeof text, "%.1f %% more %.*s", 100 * (ratio - 1), static_cast<int>(by.unit.size()), by.unit.data());
  return text + largest_loss(a, winner);
}

std::vector<predict::Assessment> by_objective(std::vector<predict::Assessment> good, const ObjectiveRow& by, std::size_t top) {
  std::ranges::stable_sort(good, [&](const predict::Assessment& a, const predict::Assessment& b) { return by.value(a) < by.value(b); });
  if (good.size() > top) good.resize(std::max<std::size_t>(1, top));
  for (std::size_t i = 1; i < good.size(); ++i) good[i].why_not = why_not(good[i], good[0], by);
  return good;
}

std::vector<predict::Assessment> front(const std::vector<predict::Assessment>& good) {
  std::vector<predict::Assessment> kept;
  for (const auto& a : good)
    if (std::ranges::none_of(good, [&](const predict::Assessment& b) { return dominates(b, a); })) kept.push_back(a);
  std::ranges::stable_sort(kept, [](const predict::Assessment& a, const predict::Assessment& b) { return a.step < b.step; });
  for (std::size_t i = 1; i < kept.size(); ++i) kept[i].why_not = "on the front: " + why_not(kept[i], kept[0], kObjectives[0]);
  return kept;
}

}  // namespace

std::span<const ObjectiveRow> objective_table() { return kObjectives; }

void require_objective(const std::string& name) {
  if (name != kPareto) (void)row_of(name);
}

std::vector<predict::Assessment> ranked(std::vector<predict::Assessment> good, const std::string& objective, std::size_t top) {
  return objective == kPareto ? front(good) : by_objective(std::move(good), row_of(objective), top);
}

}  // namespace rehearsal::search
