#include "costmodel/constants.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/words.hpp"
#include "costmodel/embedded_constants.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::costmodel {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kNames = [] {
  constexpr std::string_view kInOrder =
      "matmul_16bit_volta matmul_16bit_ampere matmul_16bit_hopper matmul_16bit_blackwell matmul_16bit_blackwell_ultra matmul_16bit_cdna "
      "matmul_16bit_consumer matmul_16bit_other matmul_cpu matmul_tf32 matmul_f32 matmul_f32_old convolution_16bit convolution_f32 "
      "convolution_tf32 convolution_pascal winograd depthwise_f32 batched_matmul flash_attention flash_attention_tuned "
      "flash_attention_hopper memory_gddr_volta memory_pascal memory_ampere memory_hopper memory_cpu memory_depthwise "
      "elementwise_unoptimised host_seconds_per_kernel host_eager host_static gap_queued gap_captured link_nvlink link_pcie "
      "link_infiniband link_ethernet collective_memory_passes collective_launch collective_step collective_node_step congestion "
      "overlap_interference overlap_interference_tuned sharded_overlap tensor_overlap spread coordination_horovod coordination_ddp "
      "optimizer_bytes power_base power_matrix power_memory power_pascal clock_floor host_power_8 memory_reserve_deepspeed "
      "memory_factor_deepspeed memory_reserve_pytorch memory_factor_pytorch memory_reserve_static memory_factor_static";
  static_assert(words_of(kInOrder).size() == kCoefficients);
  std::array<std::string_view, kCoefficients> names;
  std::ranges::copy(words_of(kInOrder), names.begin());
  return names;
}();

std::optional<Coefficient> find(std::string_view wanted) {
  const auto* found = std::ranges::find(kNames, wanted);
  return found == kNames.end() ? std::nullopt : std::optional(static_cast<Coefficient>(found - kNames.begin()));
}

void read_row(const Json& row, ConstantsFile& file, std::array<bool, kCoefficients>& seen, const std::string& where) {
  const auto text = row.at("name").get<std::string>();
  const auto coefficient = find(text);
  if (!coefficient) throw BadInput(where, "constants: '" + text + "' is unknown");
  const auto at = static_cast<std::size_t>(*coefficient);
  auto& facts = file.facts[at];
  const double value = row.at("value").get<double>();
  facts.fitted = row.at("status").get<std::string>() == "fitted";
  facts.low = row.at("low").get<double>();
  facts.high = row.at("high").get<double>();
  facts.spread = row.at("spread").get<double>();
  facts.prior = row.value("prior", value);
  facts.meaning = row.at("meaning").get<std::string>();
  facts.source = row.at("source").get<std::string>();
  if (!(value >= facts.low && value <= facts.high))
    throw BadInput(where, "constants: " + text + " = " + std::to_string(value) + " is outside its bounds " + std::to_string(facts.low) +
                              " to " + std::to_string(facts.high));
  file.values.set(*coefficient, value);
  seen[at] = true;
}

}  // namespace

std::string_view name(Coefficient c) { return kNames[static_cast<std::size_t>(c)]; }

double FittedEvidence::widening(const platforms::Device& device) const {
  return std::ranges::find(devices, device.name) == devices.end() ? kUnseenDevice : 1;
}

double FittedEvidence::widening(std::string_view framework) const {
  return !frameworks.empty() && std::ranges::find(frameworks, framework) == frameworks.end() ? kUnseenFramework : 1;
}

double FittedEvidence::drawn_to_runs(double of_group, std::string_view framework, std::string_view device) const {
  // 90 % of a normal distribution lie within 1.645 deviations, half of it within 0.674. A group counts as much as eight times; sixteen
  // times of one framework and device, often of one source, say as much as any number does, and those on other devices a quarter of that.
  constexpr double kHalfToNinety = 1.645 / 0.674, kGroupTimes = 8, kMostTimes = 16, kElsewhere = 0.25;
  double here = 0, elsewhere = 0, error_here = 0, error_elsewhere = 0;
  for (const auto& seen : runs) {
    if (seen.framework != framework) continue;
    const double error = std::log1p(seen.median_error) * seen.times;
    (seen.device == device ? here : elsewhere) += seen.times;
    (seen.device == device ? error_here : error_elsewhere) += error;
  }
  const double all = here > 0 ? here : elsewhere;
  if (all == 0) return of_group;
  const double times = std::min(all, here > 0 ? kMostTimes : kMostTimes * kElsewhere);
  const double seen = kHalfToNinety * (here > 0 ? error_here : error_elsewhere) / all;
  return std::sqrt((kGroupTimes * of_group * of_group + times * seen * seen) / (kGroupTimes + times));
}

double FittedEvidence::half_width(std::string_view group, std::string_view framework, const platforms::Device& device) const {
  const double kind = of(group) * widening(framework);
  double width = drawn_to_runs(kind * widening(device), framework, device.name);
  if (widening(device) == 1) return width;
  // Nobody is surer of a device without a run than of one whose runs went badly.
  for (const auto& seen : runs)
    if (seen.framework == framework) width = std::max(width, drawn_to_runs(kind, framework, seen.device));
  return width;
}

double FittedEvidence::of(std::string_view group) const {
  const auto found = log_factor.find(group);
  return found != log_factor.end() ? found->second : log_factor.at("default");
}

ConstantsFile constants_from_json_text(const std::string& text, const std::string& where) {
  ConstantsFile file;
  std::array<bool, kCoefficients> seen{};
  try {
    const auto json = Json::parse(text);
    for (const auto& row : json.at("constants")) read_row(row, file, seen, where);
    for (const auto& [group, factor] : json.at("intervals").items()) file.evidence.log_factor[group] = factor.get<double>();
    file.evidence.devices = json.at("known_devices").get<std::vector<std::string>>();
    file.evidence.frameworks = json.at("known_frameworks").get<std::vector<std::string>>();
    for (const auto& row : json.at("known_runs"))
      file.evidence.runs.push_back({row.at("framework").get<std::string>(), row.at("device").get<std::string>(), row.at("times").get<int>(),
                                    row.at("median_error").get<double>()});
    file.frozen_date = json.at("frozen").at("date").get<std::string>();
    file.frozen_commit = json.at("frozen").at("commit").get<std::string>();
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(where, platforms::reason_of(error));
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing != seen.end()) throw BadInput(where, "constants: '" + std::string(kNames[missing - seen.begin()]) + "' is missing");
  if (!file.evidence.log_factor.contains("default")) throw BadInput(where, "intervals: 'default' is missing");
  return file;
}

std::string to_json_text(const ConstantsFile& file) {
  std::string rows;
  for (std::size_t i = 0; i < kCoefficients; ++i) {
    const auto& facts = file.facts[i];
    const Json json{{"name", kNames[i]},
                    {"value", file.values[static_cast<Coefficient>(i)]},
                    {"status", facts.fitted ? "fitted" : "fixed"},
                    {"low", facts.low},
                    {"high", facts.high},
                    {"spread", facts.spread},
                    {"prior", facts.prior},
                    {"meaning", facts.meaning},
                    {"source", facts.source}};
    rows += (rows.empty() ? "  " : ",\n  ") + json.dump();
  }
  std::string runs;
  for (const auto& seen : file.evidence.runs) {
    const Json json{{"framework", seen.framework}, {"device", seen.device}, {"times", seen.times}, {"median_error", seen.median_error}};
    runs += (runs.empty() ? "  " : ",\n  ") + json.dump();
  }
  const Json frozen{{"date", file.frozen_date}, {"commit", file.frozen_commit}};
  const auto lists = [](const std::vector<std::string>& names) { return Json(names).dump(); };
  return "{\n \"schema\": 1,\n \"description\": \"Constants of the accelerator model. All else is a datasheet figure, a shape or a "
         "count.\",\n \"frozen\": " +
         frozen.dump() + ",\n \"constants\": [\n" + rows + "\n ],\n \"intervals\": " + Json(file.evidence.log_factor).dump() +
         ",\n \"known_runs\": [\n" + runs + "\n ]" + ",\n \"known_devices\": " + lists(file.evidence.devices) +
         ",\n \"known_frameworks\": " + lists(file.evidence.frameworks) + "\n}\n";
}

const ConstantsFile& published_constants() {
  static const ConstantsFile kFile = constants_from_json_text(std::string(embedded_constants()), "costmodel/constants/accelerators.json");
  return kFile;
}

}  // namespace rehearsal::costmodel
