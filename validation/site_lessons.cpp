#include "validation/site_lessons.hpp"

#include <cmath>

#include "base/error.hpp"
#include "validation/validate.hpp"

namespace rehearsal::validation {

costmodel::SiteFeatures site_features(const Answer& a) {
  const double t = a.step.seconds;
  return t > 0 ? costmodel::site_features(a.step.matrix_share, a.step.memory_share, a.step.exposed / t) : costmodel::site_features(0, 0, 1);
}

costmodel::Site learn_records(const costmodel::Site& site, std::span<const Record> records, const costmodel::ConstantsFile& constants) {
  auto runs = site.runs;
  Preparer preparer;
  for (const auto& r : records) {
    std::erase_if(runs, [&](const costmodel::SiteRun& run) { return run.id == r.id; });
    try {
      const auto p = preparer.prepare(r);
      const auto a = answer(p, r, constants.values);
      for (const auto& key : {time_key(r), std::string("memory_gib"), std::string("avg_gpu_power_W"), std::string("avg_node_power_W")}) {
        const auto measured = r.measured.number(key);
        if (!measured || *measured <= 0 || !a.values.contains(key)) continue;
        const double ratio = std::log(*measured / a.values.at(key));
        runs.push_back({r.id, p.job.machine.platform.nodes.front().device.name, evidence_group(p, key),
                        key == "memory_gib" ? costmodel::kNoMechanism : site_features(a), is_rate(key) ? -ratio : ratio});
      }
    } catch (const Refusal&) {
      continue;
    }
  }
  return costmodel::learn_site(std::move(runs));
}

}  // namespace rehearsal::validation
