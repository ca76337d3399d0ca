#include "predict/scaling/training_budget.hpp"

#include <array>
#include <cmath>

#include "base/error.hpp"
#include "base/parse_number.hpp"

namespace rehearsal::predict::scaling {
namespace {

double flops_spent(const Spending& s) { return s.flops_of_step * s.steps; }

/// Of the whole training: with what failures add to it, where it is known.
template <class Read>
double with_failures(const Spending& s, double goodput, Read step) {
  const auto& g = s.assessment.goodput;
  return g ? goodput * s.steps / g->run.steps : step(s.assessment) * s.steps;
}
double dollars_spent(const Spending& s) {
  return with_failures(s, s.assessment.goodput ? s.assessment.goodput->cost.money.value() : 0,
                       [](const Assessment& a) { return a.cost.money.value(); });
}
double joules_spent(const Spending& s) {
  return with_failures(s, s.assessment.goodput ? s.assessment.goodput->cost.energy.value() : 0,
                       [](const Assessment& a) { return a.cost.energy.value(); });
}
double seconds_spent(const Spending& s) {
  return with_failures(s, s.assessment.goodput ? s.assessment.goodput->finished.value() : 0,
                       [](const Assessment& a) { return a.step.value(); });
}

constexpr std::array kBudgets{BudgetRow{"flops", "compute", "time", flops_spent}, BudgetRow{"dollars", "money", "cost", dollars_spent},
                              BudgetRow{"seconds", "time", "time", seconds_spent}, BudgetRow{"joules", "energy", "energy", joules_spent}};
enum Kind : std::size_t { kFlops, kDollars, kSeconds, kJoules };

struct BudgetUnit {
  std::string_view name;
  Kind kind;
  double factor;
};
constexpr double kPetaflopDays = 1e15 * 86400;
constexpr BudgetUnit kUnits[] = {
    {"FLOP", kFlops, 1},     {"GFLOP", kFlops, 1e9},   {"TFLOP", kFlops, 1e12},   {"PFLOP", kFlops, 1e15},
    {"EFLOP", kFlops, 1e18}, {"ZFLOP", kFlops, 1e21},  {"YFLOP", kFlops, 1e24},   {"PF-days", kFlops, kPetaflopDays},
    {"s", kSeconds, 1},      {"min", kSeconds, 60},    {"h", kSeconds, 3600},     {"hours", kSeconds, 3600},
    {"d", kSeconds, 86400},  {"day", kSeconds, 86400}, {"days", kSeconds, 86400}, {"weeks", kSeconds, 604800},
    {"kWh", kJoules, 3.6e6}, {"MWh", kJoules, 3.6e9},  {"GWh", kJoules, 3.6e12},  {"$", kDollars, 1},
    {"$k", kDollars, 1e3},   {"$M", kDollars, 1e6},    {"$B", kDollars, 1e9}};

const BudgetUnit* unit_named(std::string_view name) {
  if (name.ends_with("FLOPs")) name.remove_suffix(1);
  for (const auto& unit : kUnits)
    if (unit.name == name) return &unit;
  return nullptr;
}

}  // namespace

std::span<const BudgetRow> budget_table() { return kBudgets; }

Budget parse_budget(const std::string& option, const std::string& text) {
  std::string_view rest = text;
  const bool money = rest.starts_with('$');
  if (money) rest.remove_prefix(1);
  const auto number = take_number<double>(rest);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  const auto* unit = unit_named((money ? "$" : "") + std::string(rest));
  if (!number || unit == nullptr)
    throw BadInput(option + " " + text,
                   "write compute such as 1e23FLOP or 20ZFLOP, money such as $50k or $2.5M, a time such as 12h or "
                   "3days, or energy such as 20MWh");
  if (!(*number > 0) || !std::isfinite(*number * unit->factor)) throw BadInput(option + " " + text, "must be a finite amount above 0");
  return {&kBudgets[unit->kind], *number * unit->factor, text};
}

}  // namespace rehearsal::predict::scaling
