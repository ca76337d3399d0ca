#include "cli/power_caps.hpp"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/names.hpp"

namespace rehearsal::cli {
namespace {

constexpr int kTenthsFrom = 10, kTenthsTo = 4;

/// The recipe up to the limit, and behind it; both with their commas.
struct OpenRecipe {
  std::string before, behind;
  bool open = false;

  [[nodiscard]] std::string with(const std::string& limit) const {
    if (!limit.empty()) return before + "power=" + limit + behind;
    return before.empty() ? behind.substr(std::min<std::size_t>(1, behind.size())) : before.substr(0, before.size() - 1) + behind;
  }
};

OpenRecipe open_recipe(const std::string& recipe) {
  for (std::size_t begin = 0; begin < recipe.size();) {
    const auto end = std::min(recipe.find(',', begin), recipe.size());
    const auto entry = recipe.substr(begin, end - begin);
    if (const auto equals = entry.find('='); equals != std::string::npos && plain_spelling(entry.substr(0, equals)) == "power" &&
                                             plain_spelling(entry.substr(equals + 1)) == "auto")
      return {recipe.substr(0, begin), recipe.substr(end), true};
    begin = end + 1;
  }
  return {};
}

}  // namespace

bool leaves_power_open(const PlatformOptions& o) { return open_recipe(o.recipe).open; }

std::vector<PlatformOptions> with_power_caps(const PlatformOptions& o) {
  const auto recipe = open_recipe(o.recipe);
  if (!recipe.open) return {o};
  double most = 0;
  for (const auto& group : load_platform(o).nodes) most = std::max(most, group.device.busy_power.value.value());
  std::vector<PlatformOptions> questions;
  for (int tenths = kTenthsFrom; tenths >= kTenthsTo; --tenths) {
    auto capped = o;
    capped.power_cap = std::round(most * tenths / kTenthsFrom);
    // The highest one is what boards have anyway.
    capped.recipe = recipe.with(tenths == kTenthsFrom ? "" : std::to_string(std::lround(*capped.power_cap)));
    questions.push_back(std::move(capped));
  }
  return questions;
}

nlohmann::ordered_json caps_json(const std::vector<CappedStep>& steps) {
  auto rows = nlohmann::ordered_json::array();
  const auto& first = steps.front().assessment;
  for (const auto& [watts, a] : steps)
    rows.push_back({{"limit_watts", watts},
                    {"step_seconds", a.step.value()},
                    {"energy_joules", a.cost.energy.value()},
                    {"cost_dollars", a.cost.money.value()},
                    {"slower_share", a.step / first.step - 1},
                    {"energy_saved_share", 1 - a.cost.energy / first.cost.energy}});
  return rows;
}

std::size_t least_energy(const std::vector<CappedStep>& steps) {
  const auto best = std::ranges::min_element(steps, {}, [](const CappedStep& s) { return s.assessment.cost.energy; });
  return static_cast<std::size_t>(best - steps.begin());
}

}  // namespace rehearsal::cli
