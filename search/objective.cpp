#include "search/objective.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "predict/memory_risk.hpp"

namespace rehearsal::search {
namespace {

using predict::Assessment;
using predict::Outlook;

/// Of one step, with its share of what failures and checkpoints add to the training. An outlook knows nothing of them, and is a bound all
/// the same: they never make less of anything.
double time_of(const Assessment& a) { return a.step.value() * (a.goodput ? a.goodput->stretch() : 1); }
double energy_of(const Assessment& a) { return a.goodput ? a.goodput->cost.energy.value() / a.goodput->run.steps : a.cost.energy.value(); }
double money_of(const Assessment& a) { return a.goodput ? a.goodput->cost.money.value() / a.goodput->run.steps : a.cost.money.value(); }

/// Of the whole training, its first epoch included.
double whole_time(const Assessment& a, double steps) {
  return a.goodput ? a.goodput->finished.value() : predict::training_seconds(a, steps).value;
}
double whole_energy(const Assessment& a, double steps) {
  return (a.goodput ? a.goodput->cost : predict::training_cost(a, steps)).energy.value();
}
double whole_money(const Assessment& a, double steps) {
  return (a.goodput ? a.goodput->cost : predict::training_cost(a, steps)).money.value();
}

constexpr std::array kObjectives{
    ObjectiveRow{"time", "seconds of a step", time_of, [](const Outlook& o) { return o.step.value(); }, "time"},
    ObjectiveRow{"energy", "joules of a step at the meter", energy_of, [](const Outlook& o) { return o.cost.energy.value(); }, "energy"},
    ObjectiveRow{"cost", "dollars of a step", money_of, [](const Outlook& o) { return o.cost.money.value(); }, "money"},
    ObjectiveRow{"memory", "bytes of the fullest rank", [](const Assessment& a) { return static_cast<double>(a.memory_bytes); },
                 [](const Outlook& o) { return static_cast<double>(o.memory_bytes); }, "memory", false},
};

template <class Quantity>
double quantity(const std::string& text) {
  return parse_quantity<Quantity>(text).value();
}

double plain_number(const std::string& text) {
  std::string_view rest = text;
  if (!rest.empty() && rest.front() == '$') rest.remove_prefix(1);
  const auto number = take_number<double>(rest);
  if (number && rest == "k") return *number * 1e3;
  if (number && rest == "M") return *number * 1e6;
  if (!number || !rest.empty()) throw BadInput("\"" + text + "\" is no number; write for example 512, 20k or 1.5M");
  return *number;
}

/// Of the whole: "5%" or "0.05".
double share(const std::string& text) {
  std::string_view rest = text;
  const auto number = take_number<double>(rest);
  const double value = number.value_or(-1) / (rest == "%" ? 100 : 1);
  if (!number || !(rest.empty() || rest == "%") || value > 1) throw BadInput("\"" + text + "\" is no share of 1; write for example 5%");
  return value;
}

std::string count_text(double value) { return std::to_string(std::llround(value)); }

constexpr std::array kLimits{
    LimitRow{"step", "2s", quantity<Seconds>, [](const Assessment& a, double) { return a.step.value(); },
             [](const Outlook& o, double) { return o.step.value(); }, [](double v) { return to_text(Seconds(v)); }},
    LimitRow{"total", "72h", quantity<Seconds>, whole_time, [](const Outlook& o, double steps) { return o.step.value() * steps; },
             [](double v) { return to_text(Seconds(v)); }, true},
    LimitRow{"cost", "50000", plain_number, whole_money, [](const Outlook& o, double steps) { return o.cost.money.value() * steps; },
             [](double v) { return to_text(Dollars(v)); }, true},
    LimitRow{"energy", "10MWh", quantity<Joules>, whole_energy,
             [](const Outlook& o, double steps) { return o.cost.energy.value() * steps; }, [](double v) { return to_text(Joules(v)); },
             true},
    LimitRow{"memory", "60GB", quantity<Bytes>, [](const Assessment& a, double) { return static_cast<double>(a.memory_bytes); },
             [](const Outlook& o, double) { return static_cast<double>(o.memory_bytes); }, [](double v) { return to_text(Bytes(v)); }},
    LimitRow{"out-of-memory", "5%", share, [](const Assessment& a, double) { return predict::chance_of_running_out(a); },
             [](const Outlook&, double) { return 0.0; }, predict::chance_text},
    LimitRow{"devices", "512", plain_number, [](const Assessment& a, double) { return static_cast<double>(a.ranks); },
             [](const Outlook&, double) { return 0.0; }, count_text},
};

constexpr std::string_view kFrontOfAll = "pareto";

double over(double value, double most) { return value <= most ? 0 : std::log(value / most); }

}  // namespace

std::span<const ObjectiveRow> objective_table() { return kObjectives; }
std::span<const LimitRow> limit_table() { return kLimits; }

std::string_view objective_name(const std::string& text) {
  auto names = names_of_rows(kObjectives, &ObjectiveRow::name);
  names.push_back(kFrontOfAll);
  if (const auto found = find_name(text, names)) return *found;
  throw BadInput("--objective", "\"" + text + "\" is unknown; use " + joined(kObjectives, ", ", &ObjectiveRow::name) + " or pareto");
}

const ObjectiveRow* objective(const std::string& name) {
  const auto known = objective_name(name);
  return known == kFrontOfAll ? nullptr : &*std::ranges::find(kObjectives, known, &ObjectiveRow::name);
}

double value_of(const ObjectiveRow* by, const Assessment& a) { return by == nullptr ? time_of(a) : by->value(a); }

Limit parse_limit(const std::string& text) {
  const auto equals = text.find('=');
  const auto name = find_name(text.substr(0, equals), names_of_rows(kLimits, &LimitRow::name));
  const auto row = name ? std::ranges::find(kLimits, *name, &LimitRow::name) : kLimits.end();
  if (equals == std::string::npos || row == kLimits.end())
    throw BadInput("--limit " + text, "write one of " + joined(kLimits, ", ", [](const LimitRow& r) {
                                        return std::string(r.name) + "=" + std::string(r.example);
                                      }));
  try {
    const Limit limit{row, row->parse(text.substr(equals + 1))};
    if (!(limit.most > 0)) throw BadInput("must be more than 0");
    return limit;
  } catch (const BadInput& error) {
    throw BadInput("--limit " + text, error.what());
  }
}

double excess(std::span<const Limit> limits, const Assessment& a, double steps) {
  double most = 0;
  for (const auto& l : limits) most = std::max(most, over(l.row->value(a, steps), l.most));
  return most;
}

double least_excess(std::span<const Limit> limits, const Outlook& o, double steps) {
  double most = 0;
  for (const auto& l : limits) most = std::max(most, over(l.row->least(o, steps), l.most));
  return most;
}

std::string excess_text(std::span<const Limit> limits, const Assessment& a, double steps) {
  std::string text;
  for (const auto& l : limits) {
    const double value = l.row->value(a, steps);
    if (over(value, l.most) <= 0) continue;
    text += (text.empty() ? "" : ", ") + std::string(l.row->name) + " " + l.row->print(value) + " instead of at most " +
            l.row->print(l.most) + " (loosen it with --limit " + std::string(l.row->name) + "=...)";
  }
  return text;
}

}  // namespace rehearsal::search
