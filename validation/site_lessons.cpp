#include "validation/site_lessons.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "base/error.hpp"
#include "base/join.hpp"
#include "validation/validate.hpp"

namespace rehearsal::validation {

costmodel::SiteFeatures site_features(const Answer& a) {
  const double t = a.step.seconds;
  if (t <= 0) return costmodel::site_features(0, 0, 1);
  return costmodel::site_features(a.step.matrix_share, a.step.memory_share, (a.step.exposed - a.step.handovers) / t);
}

namespace {

constexpr std::array<std::string_view, 3> kBesideTimes{"memory_gib", "avg_gpu_power_W", "avg_node_power_W"};

/// Of a record without a number that is learned from.
std::string why_nothing(const Record& r) {
  std::vector<std::string_view> learned(time_keys().begin(), time_keys().end());
  learned.insert(learned.end(), kBesideTimes.begin(), kBesideTimes.end());
  for (const auto key : learned)
    if (r.measured.has(key))
      return "measured." + std::string(key) +
             (r.measured.number_or(key, 0) > 0 ? ": is not predicted of such a run" : ": is no number above 0");
  return "measured: none of " + measured_keys(r) + " can be learned from, as can " + joined(learned);
}

/// What one record teaches. Throws Refusal saying why it is nothing.
std::vector<costmodel::SiteRun> lessons_of(const Record& r, Preparer& preparer, const costmodel::ConstantsFile& constants) {
  require_measured(r);
  const auto p = preparer.prepare(r);
  const auto a = answer(p, r, constants.values);
  std::vector<costmodel::SiteRun> runs;
  std::vector<std::string> keys(kBesideTimes.begin(), kBesideTimes.end());
  keys.insert(keys.begin(), time_key(r));
  for (const auto& key : keys) {
    const auto measured = r.measured.number(key);
    if (!measured || *measured <= 0 || !a.values.contains(key)) continue;
    const double ratio = std::log(*measured / a.values.at(key));
    runs.push_back({r.id, p.job.machine.platform.nodes.front().device.name, evidence_group(p, key),
                    key == "memory_gib" ? costmodel::kNoMechanism : site_features(a), is_rate(key) ? -ratio : ratio});
  }
  if (runs.empty()) throw Refusal(why_nothing(r));
  return runs;
}

}  // namespace

costmodel::Site learn_records(const costmodel::Site& site, std::span<const Record> records, const costmodel::ConstantsFile& constants,
                              std::vector<TaughtNothing>* nothing) {
  auto runs = site.runs;
  Preparer preparer;
  for (const auto& r : records) {
    std::erase_if(runs, [&](const costmodel::SiteRun& run) { return run.id == r.id; });
    try {
      std::ranges::move(lessons_of(r, preparer, constants), std::back_inserter(runs));
    } catch (const Refusal& refusal) {
      if (nothing != nullptr) nothing->push_back({r.id, refusal.what()});
    }
  }
  return costmodel::learn_site(std::move(runs));
}

}  // namespace rehearsal::validation
