#include "cli/training_result.hpp"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/units.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

/// First, last and evenly spaced ones between: `--metrics` has all of them.
void add_losses(const exec::TrainingOutcome& outcome, std::size_t most, Json& result) {
  const auto& losses = outcome.losses;
  if (losses.size() <= most) {
    result["losses"] = losses;
    return;
  }
  Json few = Json::array(), steps = Json::array();
  for (std::size_t n = 0; n < most; ++n) {
    const auto at = n * (losses.size() - 1) / (most - 1);
    few.push_back(losses[at]);
    steps.push_back(outcome.first_step + static_cast<std::int64_t>(at));
  }
  result["losses"] = std::move(few);
  result["losses_steps"] = std::move(steps);
}

Json to_json(const std::vector<exec::Straggler>& stragglers) {
  Json all = Json::array();
  for (const auto& s : stragglers)
    all.push_back({{"rank", s.rank},
                   {"slower", s.slower},
                   {"awaited", s.awaited},
                   {"awaited_seconds", s.awaited_seconds},
                   {"awaited_by", s.awaited_by}});
  return all;
}

Json to_json(const exec::SampleNorms& norms) {
  return {{"count", norms.count},
          {"mean", norms.mean()},
          {"least", norms.least},
          {"largest", norms.largest.norm},
          {"largest_of", norms.largest.sample},
          {"largest_in_step", norms.largest_in}};
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

/// With what it says of batches (McCandlish et al. 2018, equation 2.11): at this one a target takes so many times the steps of endless
/// batches, and so many times the samples of smallest ones.
Json to_json(const exec::NoiseResult& noise) {
  Json j{{"parts", noise.of.parts},
         {"steps", noise.steps},
         {"gradient_square", noise.square},
         {"gradient_variance", noise.variance},
         {"sample_norm", or_null(noise.sample_norm())},
         {"critical_batch", {{"value", or_null(noise.scale)}, {"low", or_null(noise.low)}, {"high", or_null(noise.high)}}}};
  if (noise.samples) j["sample_norms"] = to_json(*noise.samples);
  if (!noise.scale) {
    j["critical_batch_absence"] = "the gradient is not to be told from its noise in so few steps; measure more, or with larger batches";
    return j;
  }
  j["times_least_steps"] = 1 + *noise.scale / noise.of.batch;
  j["times_least_samples"] = *noise.scale > 0 ? Json(1 + noise.of.batch / *noise.scale) : Json(nullptr);
  return j;
}

}  // namespace

nlohmann::ordered_json result_of(const exec::TrainingOutcome& outcome, const plan::Program& program, std::size_t most_losses) {
  Json j;
  j["schema"] = 1;
  j["plan"] = plan::to_text(program.plan);
  j["ranks"] = program.ranks;
  if (!outcome.device.empty()) j["device"] = outcome.device;
  if (!outcome.device.empty() && program.ranks > 1) j["collectives_by"] = outcome.collectives;
  j["steps"] = outcome.losses.size();
  j["first_step"] = outcome.first_step;
  add_losses(outcome, most_losses, j);
  if (outcome.skipped > 0) j["skipped_steps"] = outcome.skipped;
  if (outcome.interrupted) j["interrupted"] = true;
  j["samples_per_second"] = outcome.samples_per_second;
  if (outcome.noise) j["noise_scale"] = to_json(*outcome.noise);
  if (!outcome.stragglers.empty()) j["stragglers"] = to_json(outcome.stragglers);
  j["energy_joules"] = outcome.energy ? Json(outcome.energy->value()) : Json(nullptr);
  if (!outcome.energy) j["energy_absence"] = outcome.energy_absence;
  Json memory = Json::array();
  for (const auto& m : outcome.memory)
    memory.push_back({{"predicted_bytes", m.predicted}, {"allocated_bytes", m.allocated}, {"resident_bytes", m.resident}});
  // Of the rank that was predicted to need most, as estimate says it.
  const auto fullest = std::ranges::max_element(outcome.memory, {}, &exec::ResidentMemory::predicted);
  const auto most = fullest == outcome.memory.end() ? exec::ResidentMemory{} : *fullest;
  j["memory_bytes"] = Json{{"predicted", most.predicted}, {"allocated", most.allocated}, {"resident", most.resident}, {"per_rank", memory}};
  return j;
}

std::string straggler_text(const exec::Straggler& s) {
  const auto rank = [](int number) { return "rank " + std::to_string(number); };
  auto text = rank(s.rank) + " takes " + std::to_string(std::lround(100 * s.slower)) + " % longer than ranks that do the same";
  if (s.awaited.empty()) return text;
  return text + "; " + rank(s.awaited_by) + " waited longest for " + s.awaited + " (" + to_text(Seconds(s.awaited_seconds)) + ")";
}

}  // namespace rehearsal::cli
