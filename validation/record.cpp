#include "validation/record.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::validation {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kTopKeys =
    " id family source model hardware plan measured saw complete core note assumed_fields secondary_source ";
constexpr std::string_view kModelKeys =
    " name family layers hidden heads kv_heads ffn seq vocab params attn mem_len enc_layers dec_layers enc_seq dec_seq kv_channels image "
    "num_sequential_layers bytes dtype size tokens train_samples params_bytes_MB experts topk classes channels batch d "
    "active_params experts_topk moe_ffn shared_experts dense_layers tied_embeddings qkv_bias zoo ";
constexpr std::string_view kHardwareKeys =
    " gpu device count gpus_per_node intra_topology intra_bw_GBps network inter_bw_GBps_per_gpu mem_GiB mem_bw_TBps peak_tflops_16bit "
    "peak_tflops_fp16 peak_tflops_fp32 peak_tflops_fp8 peak_tflops_fp4 tdp_W power_limit_W power_cap_W cpu "
    "nvlink_domain power_note platform ";
constexpr std::string_view kPlanKeys =
    " dp tp pp cp ep interleave micro_batch grad_accum global_batch local_batch chunks balance schedule recompute zero sharding "
    "mixed_precision_mode precision optimizer seq_parallel tp_overlap grad_bucketing overlap layout compiler framework task comm "
    "parallel_block sliding_window_attention spatial_parallel lora collective algorithm ranks plan_as micro_batch_tokens optimisation "
    "config step recompute_modules recompute_num_layers cpu_offload_layers cpu_offload activation_offload cuda_graph moe_a2a_overlap "
    "dispatcher kernels transformer_engine attn_flash chunked_loss optimizer_in_backward quantisation quantised_ops lora_rank lora_targets "
    "lora_quantised packed zero1_group text ";

struct Section {
  const char* key;
  Fields Record::*fields;
  std::string_view known;
};
constexpr std::array<Section, 4> kSections{{{"model", &Record::model, kModelKeys},
                                            {"hardware", &Record::hardware, kHardwareKeys},
                                            {"plan", &Record::plan, kPlanKeys},
                                            {"measured", &Record::measured, {}}}};

bool known(std::string_view list, const std::string& key) { return list.empty() || list.find(" " + key + " ") != std::string_view::npos; }

std::optional<double> number_in(const std::string& text) {
  const auto value = parse_number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

/// What authors write where they know nothing: as good as null.
bool says_nothing(const std::string& text) {
  constexpr std::string_view kNothing[] = {"",   "not stated", "unstated", "not given", "unknown", "unspecified", "not specified", "n/a",
                                           "na", "none given", "tbd",      "-",         "?"};
  return std::find(std::begin(kNothing), std::end(kNothing), lower_case(text)) != std::end(kNothing);
}

Field field_of(const Json& value) {
  Field field;
  field.null = value.is_null();
  if (value.is_string()) {
    field.text = value.get<std::string>();
    field.number = number_in(field.text);
    field.null = says_nothing(field.text);
  } else {
    field.text = value.dump();
    field.nested = value.is_structured();
    if (value.is_number()) field.number = value.get<double>();
    if (value.is_boolean()) field.number = value.get<bool>() ? 1 : 0;
  }
  return field;
}

void read_section(const Json& json, const Section& section, Record& record, std::set<std::string>& unknown) {
  const auto found = json.find(section.key);
  if (found == json.end() || found->is_null()) return;
  if (!found->is_object()) {
    record.broken = std::string(section.key) + ": must be an object";
    return;
  }
  for (const auto& [key, value] : found->items()) {
    if (!known(section.known, key)) unknown.insert(std::string(section.key) + "." + key);
    (record.*section.fields).set(key, field_of(value));
  }
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

Record record_of(const Json& json, std::set<std::string>& unknown) {
  if (!json.is_object()) throw BadInput("a record is an object");
  Record record;
  record.id = text_of(json, "id");
  if (record.id.empty()) throw BadInput("'id' is missing; every record has a text that names it");
  record.family = text_of(json, "family");
  record.source = text_of(json, "source");
  const auto complete = text_of(json, "complete");
  record.complete = complete.empty() || complete == "full";
  record.core = !json.contains("core") || (json["core"].is_boolean() && json["core"].get<bool>());
  for (const auto& item : json.items())
    if (!known(kTopKeys, item.key())) unknown.insert(item.key());
  for (const auto& section : kSections) read_section(json, section, record, unknown);
  return record;
}

/// A file as it is read.
struct Lines {
  RecordFile file;
  std::map<std::string, int> of_id;  ///< where it stands first

  void add(const Json& json, int line) {
    auto record = record_of(json, file.unknown_keys);
    const auto [first, is_new] = of_id.try_emplace(record.id, line);
    if (!is_new) file.repeated_ids.insert(record.id + " (lines " + std::to_string(first->second) + " and " + std::to_string(line) + ")");
    file.records.push_back(std::move(record));
  }
};

}  // namespace

namespace {

/// What is one value is no list of them; of some keys there are several.
void refuse_lists(const Record& r) {
  constexpr std::string_view kLists = " balance recompute_modules lora_targets quantised_ops ";
  for (const auto& section : kSections)
    for (const auto& [key, field] : (r.*section.fields).all())
      if (field.nested && !section.known.empty() && known(section.known, key) && !known(kLists, key))
        throw Refusal(std::string(section.key) + "." + key + ": is " + field.text + "; it must be one value");
}

}  // namespace

void require_form(const Record& r) {
  if (!r.broken.empty()) throw Refusal(r.broken);
  refuse_lists(r);
  struct Numbers {
    const char* section;
    const Fields& fields;
    std::string_view keys;
  };
  const std::array sections{
      Numbers{"model", r.model, " layers hidden heads kv_heads ffn seq vocab experts topk bytes "},
      Numbers{"hardware", r.hardware, " count gpus_per_node intra_bw_GBps inter_bw_GBps_per_gpu mem_GiB mem_bw_TBps tdp_W nvlink_domain "},
      Numbers{"plan", r.plan, " dp tp pp cp ep interleave micro_batch grad_accum global_batch local_batch chunks ranks lora_rank "},
      Numbers{"measured", r.measured, {}}};
  for (const auto& [section, fields, keys] : sections)
    for (const auto& [key, field] : fields.all())
      if (known(keys, key) && !field.number && !field.null)
        throw Refusal(std::string(section) + "." + key + ": is " + field.text + "; it must be a number");
}

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool Fields::truth(std::string_view key) const {
  constexpr std::string_view kYes[] = {"true", "yes", "on", "enabled"};
  return number_or(key, 0) != 0 || std::find(std::begin(kYes), std::end(kYes), text(key)) != std::end(kYes);
}

bool holds_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](auto part) { return holds(text, part); });
}

std::optional<double> Fields::number(std::string_view key) const {
  const auto found = fields_.find(key);
  return found == fields_.end() ? std::nullopt : found->second.number;
}

std::string Fields::written(std::string_view key) const {
  const auto found = fields_.find(key);
  return found == fields_.end() || found->second.null ? "" : found->second.text;
}

std::string Fields::text(std::string_view key) const { return lower_case(written(key)); }

RecordFile read_records(std::istream& in, const std::string& where) {
  Lines lines;
  platforms::for_each_json_line(in, where, [&](const Json& json, int line) { lines.add(json, line); });
  return std::move(lines.file);
}

RecordFile read_record_file(const std::string& path) {
  Lines lines;
  platforms::for_each_json_line(path, "a file of records", [&](const Json& json, int line) { lines.add(json, line); });
  return std::move(lines.file);
}

void require_records(const RecordFile& file, const std::string& path) {
  if (file.records.empty()) throw BadInput(path, "has no record; one is a JSON object on a line (docs/records.md)");
}

}  // namespace rehearsal::validation
