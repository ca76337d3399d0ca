#include <algorithm>
#include <cmath>

#include "base/statistics.hpp"
#include "validation/validate.hpp"

namespace rehearsal::validation {
namespace {

/// Collects errors of one row.
struct Tally {
  ErrorRow row;
  std::vector<double> errors, widths;

  void add(const Verdict& v, const Record& r) {
    const auto key = scored_key(v);
    if (key.empty()) {
      ++row.refused;
      return;
    }
    ++row.answered;
    const auto error = v.errors.find(key);
    if (error == v.errors.end()) return;
    ++row.measured;
    const auto& interval = v.predicted.at(key);
    const double measured = *r.measured.number(key);
    errors.push_back(std::fabs(error->second));
    widths.push_back(interval.high / interval.value);
    if (interval.low == interval.high) return;
    ++row.bounded;
    row.held += interval.low <= measured && measured <= interval.high;
  }

  ErrorRow finished() {
    for (const double e : errors) row.mean += e / static_cast<double>(errors.size());
    row.median = median_of(errors);
    row.median_width = median_of(widths);
    return row;
  }
};

struct TimedPlan {
  double predicted = 0, measured = 0;
};

std::vector<double> ranks_of(const std::vector<TimedPlan>& plans, double TimedPlan::*value) {
  std::vector<double> ranks(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i)
    for (const auto& other : plans) ranks[i] += (other.*value < plans[i].*value) + 0.5 * (other.*value == plans[i].*value);
  return ranks;
}

/// Spearman's coefficient: Pearson's of the ranks.
double rank_correlation(const std::vector<TimedPlan>& plans) {
  const auto a = ranks_of(plans, &TimedPlan::predicted), b = ranks_of(plans, &TimedPlan::measured);
  const double n = static_cast<double>(plans.size()), mean = n / 2;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

/// Runs of one plan, which predictions cannot tell apart, as one with their mean: the order of repetitions is nobody's choice.
std::vector<TimedPlan> without_repetitions(std::vector<TimedPlan> plans) {
  std::map<double, std::pair<double, int>> of_prediction;
  for (const auto& plan : plans) {
    auto& [sum, runs] = of_prediction[plan.predicted];
    sum += plan.measured;
    ++runs;
  }
  plans.clear();
  for (const auto& [predicted, measured] : of_prediction) plans.push_back({predicted, measured.first / measured.second});
  return plans;
}

PlanChoice choice_of(std::span<const Verdict> verdicts, std::span<const Record> records) {
  std::map<std::string, std::vector<TimedPlan>> sets;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const auto predicted = verdicts[i].predicted.find("iteration_time_s");
    const auto measured = records[i].measured.number("iteration_time_s");
    if (predicted != verdicts[i].predicted.end() && measured) sets[verdicts[i].plan_set].push_back({predicted->second.value, *measured});
  }
  for (auto& [key, plans] : sets) plans = without_repetitions(std::move(plans));
  PlanChoice choice;
  const auto by = [](double TimedPlan::*value) { return [value](const TimedPlan& a, const TimedPlan& b) { return a.*value < b.*value; }; };
  for (const auto& [key, plans] : sets) {
    if (plans.size() < 3) continue;
    const auto chosen = std::min_element(plans.begin(), plans.end(), by(&TimedPlan::predicted));
    const auto best = std::min_element(plans.begin(), plans.end(), by(&TimedPlan::measured));
    const double regret = chosen->measured / best->measured - 1;
    ++choice.sets;
    choice.mean_regret += regret;
    choice.worst_regret = std::max(choice.worst_regret, regret);
    choice.rank_correlation += rank_correlation(plans);
  }
  if (choice.sets > 0) {
    choice.mean_regret /= choice.sets;
    choice.rank_correlation /= choice.sets;
  }
  return choice;
}

}  // namespace

Summary summarise(std::span<const Verdict> verdicts, std::span<const Record> records) {
  std::map<std::string, Tally> families;
  Tally all;
  Summary summary;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const auto& v = verdicts[i];
    families[v.family].add(v, records[i]);
    all.add(v, records[i]);
    if (!v.refused.empty()) ++summary.refusals[v.refused];
    summary.played += v.played ? 1 : 0;
  }
  for (auto& [family, tally] : families) {
    summary.families.push_back(tally.finished());
    summary.families.back().family = family;
  }
  summary.all = all.finished();
  summary.all.family = "all";
  summary.choice = choice_of(verdicts, records);
  return summary;
}

}  // namespace rehearsal::validation
