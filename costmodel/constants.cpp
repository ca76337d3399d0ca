#include "costmodel/constants.hpp"

#include <algorithm>
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

SeenKind seen_kind(const Json& row) {
  SeenKind seen;
  for (std::size_t n = 0; n < kNamedNovelties; ++n) seen.traits.names[n] = row.at(std::string(kNoveltyNames[n])).get<std::string>();
  seen.traits.devices = row.at("devices").get<double>();
  seen.traits.parameters = row.at("parameters").get<double>();
  seen.times = row.at("times").get<int>();
  seen.error = row.at("error").get<double>();
  return seen;
}

Json to_json(const SeenKind& seen) {
  Json row;
  for (std::size_t n = 0; n < kNamedNovelties; ++n) row[std::string(kNoveltyNames[n])] = seen.traits.names[n];
  row["devices"] = seen.traits.devices;
  row["parameters"] = seen.traits.parameters;
  row["times"] = seen.times;
  row["error"] = seen.error;
  return row;
}

FittedEvidence evidence_in(const Json& json) {
  FittedEvidence evidence;
  for (const auto& [group, factor] : json.at("intervals").items()) evidence.log_factor[group] = factor.get<double>();
  evidence.devices = json.at("known_devices").get<std::vector<std::string>>();
  evidence.frameworks = json.at("known_frameworks").get<std::vector<std::string>>();
  for (const auto& row : json.at("known_runs"))
    evidence.runs.push_back({row.at("framework").get<std::string>(), row.at("device").get<std::string>(), row.at("times").get<int>(),
                             row.at("median_error").get<double>()});
  for (const auto& row : json.at("known_kinds")) evidence.kinds.push_back(seen_kind(row));
  evidence.level = json.at("widening").at("known").get<double>();
  for (std::size_t n = 0; n < kNovelties; ++n)
    evidence.widening[n] = json.at("widening").at("new_" + std::string(kNoveltyNames[n])).get<double>();
  return evidence;
}

/// A row a line.
template <class Rows, class Text>
std::string lines_of(const Rows& rows, Text text) {
  std::string lines;
  for (const auto& row : rows) lines += (lines.empty() ? "  " : ",\n  ") + text(row).dump();
  return lines;
}

/// As the end of an object that others have begun.
std::string evidence_text(const FittedEvidence& evidence) {
  const auto runs = lines_of(evidence.runs, [](const SeenRuns& seen) {
    return Json{{"framework", seen.framework}, {"device", seen.device}, {"times", seen.times}, {"median_error", seen.median_error}};
  });
  return " \"intervals\": " + Json(evidence.log_factor).dump() + ",\n \"widening\": " + Json(evidence.factors()).dump() + ",\n \"known_runs\": [\n" + runs +
         "\n ],\n \"known_kinds\": [\n" + lines_of(evidence.kinds, [](const SeenKind& seen) { return to_json(seen); }) +
         "\n ],\n \"known_devices\": " + Json(evidence.devices).dump() + ",\n \"known_frameworks\": " + Json(evidence.frameworks).dump() +
         "\n}\n";
}

}  // namespace

std::string_view name(Coefficient c) { return kNames[static_cast<std::size_t>(c)]; }

ConstantsFile constants_from_json_text(const std::string& text, const std::string& where) {
  ConstantsFile file;
  std::array<bool, kCoefficients> seen{};
  try {
    const auto json = Json::parse(text);
    for (const auto& row : json.at("constants")) read_row(row, file, seen, where);
    file.evidence = evidence_in(json);
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
  const Json frozen{{"date", file.frozen_date}, {"commit", file.frozen_commit}};
  return "{\n \"schema\": 1,\n \"description\": \"Constants of the accelerator model. All else is a datasheet figure, a shape or a "
         "count.\",\n \"frozen\": " +
         frozen.dump() + ",\n \"constants\": [\n" + rows + "\n ],\n" + evidence_text(file.evidence);
}

const ConstantsFile& published_constants() {
  static const ConstantsFile kFile = constants_from_json_text(std::string(embedded_constants()), "costmodel/constants/accelerators.json");
  return kFile;
}

}  // namespace rehearsal::costmodel
