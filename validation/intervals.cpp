#include "validation/intervals.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "base/statistics.hpp"
#include "validation/left_out.hpp"

namespace rehearsal::validation {
namespace {

using costmodel::FittedEvidence;
using costmodel::Novelty;
using Quantities = std::vector<FittedQuantity>;

constexpr double kHeldOfFamily = 0.85, kFamiliesHeld = 0.9;
constexpr double kMuchLarger = FittedEvidence::kMuchMore, kSizeStep = 4;

/// The value below which so many of the families have `kHeldOfFamily` of their overruns.
double overrun_of_families(const std::map<std::string, std::vector<double>>& families) {
  std::vector<double> of_family;
  for (const auto& [name, overruns] : families)
    if (overruns.size() >= kFewestQuantities) of_family.push_back(upper_quantile(overruns, kHeldOfFamily));
  return of_family.empty() ? 1 : std::max(1.0, upper_quantile(of_family, kFamiliesHeld));
}

/// Of times of runs like published ones, of other sources.
double level_of(const FittedEvidence& evidence, const Quantities& quantities) {
  std::map<std::string, int> of_source;
  std::vector<Overrun> alike;
  for (const auto& turn : turns_by(quantities, "source"))
    for (auto& overrun : overruns_of(turn, evidence, quantities))
      if (overrun.alike) alike.push_back(overrun);
  for (const auto& o : alike) ++of_source[o.quantity->source];
  if (alike.size() < kFewestQuantities) return 1;
  std::vector<Weighted> values;
  for (const auto& o : alike) values.push_back({o.ratio, 1 / std::sqrt(of_source[o.quantity->source])});
  return weighted_quantile(std::move(values), kCoverage);
}

double widening_by(const FittedEvidence& evidence, const Quantities& quantities, std::string_view by) {
  std::map<std::string, std::vector<double>> families;
  for (const auto& turn : turns_by(quantities, by))
    for (const auto& o : overruns_of(turn, evidence, quantities)) families[turn.name].push_back(o.ratio);
  return overrun_of_families(families);
}

/// Larger runs of a source, by what smaller ones of other sources say.
double widening_by_size(const FittedEvidence& evidence, const Quantities& quantities, double costmodel::RunTraits::*size) {
  std::map<std::string, std::vector<double>> families;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const auto& q : quantities) {
    if (!is_time_group(q.group) || q.traits.*size <= 0) continue;
    least = std::min(least, q.traits.*size);
    most = std::max(most, q.traits.*size);
  }
  for (double limit = least; limit * kMuchLarger < most; limit *= kSizeStep)
    for (auto turn : turns_by(quantities, "source")) {
      turn.keeps = [keeps = turn.keeps, limit, size](const FittedQuantity& q) { return keeps(q) && q.traits.*size <= limit; };
      turn.asks = [asks = turn.asks, limit, size](const FittedQuantity& q) { return asks(q) && q.traits.*size > kMuchLarger * limit; };
      for (const auto& o : overruns_of(turn, evidence, quantities)) families[turn.name + std::to_string(limit)].push_back(o.ratio);
    }
  return overrun_of_families(families);
}

void set_widening(FittedEvidence& evidence, const Quantities& quantities) {
  evidence.level = 1;
  evidence.widening.fill(1);
  evidence.level = level_of(evidence, quantities);
  auto widening = evidence.widening;
  for (std::size_t n = 0; n < costmodel::kNamedNovelties; ++n) widening[n] = widening_by(evidence, quantities, costmodel::kNoveltyNames[n]);
  evidence.widening = widening;
  const double devices = widening_by_size(evidence, quantities, &costmodel::RunTraits::devices);
  const double parameters = widening_by_size(evidence, quantities, &costmodel::RunTraits::parameters);
  evidence.widening[static_cast<std::size_t>(Novelty::Devices)] = devices;
  evidence.widening[static_cast<std::size_t>(Novelty::Parameters)] = parameters;
}

/// Of those that have several quantities.
void add_families(std::vector<LeftOutFamily>& rows, const std::map<std::pair<std::string, std::string>, std::vector<Overrun>>& families) {
  for (const auto& [key, overruns] : families) {
    if (overruns.size() < kFewestQuantities) continue;
    std::vector<double> ratios;
    LeftOutFamily row{key.first, key.second, static_cast<int>(overruns.size()), 0, 1};
    for (const auto& o : overruns) {
      row.held += (o.ratio <= 1) / static_cast<double>(overruns.size());
      ratios.push_back(std::exp(2 * o.half_width));
    }
    row.median_ratio = median_of(ratios);
    rows.push_back(std::move(row));
  }
}

}  // namespace

bool is_time_group(std::string_view group) { return group != "memory" && group != "energy" && group != "collective"; }

IntervalCheck set_intervals(FittedEvidence& evidence, const Quantities& quantities) {
  auto seen = evidence_without(quantities, evidence, [](const FittedQuantity&) { return true; });
  evidence.log_factor = std::move(seen.log_factor);
  evidence.kinds = std::move(seen.kinds);
  set_widening(evidence, quantities);
  IntervalCheck check;
  std::map<std::pair<std::string, std::string>, std::vector<Overrun>> families;
  for (const auto& turn : turns_by(quantities, "source", Asked::Everything))
    for (const auto& o : overruns_of(turn, evidence, quantities)) {
      check.coverage += (o.ratio <= 1) / static_cast<double>(quantities.size());
      const auto& q = *o.quantity;
      families[{"family", is_time_group(q.group) || q.group == "collective" ? q.family : q.group + " of " + q.family}].push_back(o);
      if (is_time_group(q.group)) families[{"source", q.source}].push_back(o);
    }
  for (const auto by : std::span(costmodel::kNoveltyNames).first(costmodel::kNamedNovelties))
    for (const auto& turn : turns_by(quantities, by))
      for (const auto& o : overruns_of(turn, evidence, quantities)) families[{std::string(by), turn.name}].push_back(o);
  add_families(check.families, families);
  return check;
}

}  // namespace rehearsal::validation
