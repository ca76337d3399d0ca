// plan.json: the keys of the compact text in sections, and what the plan was made for. Its schema is plan/schema/plan.schema.json.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/parse_number.hpp"
#include "plan/plan_keys.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::plan {
namespace {

using nlohmann::json;

constexpr int kPlanJsonSchema = 1;
constexpr std::size_t kHashDigits = 16;

json value_in_json(const PlanKey& row, const Plan& plan) {
  if (std::ranges::find(plan.searched, row.key) != plan.searched.end()) return "auto";
  std::string text = row.print(plan);
  switch (row.kind) {
    case KeyKind::Integer:
      return parse_number<std::int64_t>(text) ? json(*parse_number<std::int64_t>(text)) : json();  // left out: nothing, or all
    case KeyKind::Switch:
      return text == "on";
    case KeyKind::Names:
      return text.empty() ? json() : json(names_in(text));
    case KeyKind::Text:
      break;
  }
  return text;
}

/// Throws BadInput saying which kind of value is right.
std::string text_of(const PlanKey& row, const json& value) {
  if (value.is_string() && (row.kind == KeyKind::Text || value == "auto")) return value.get<std::string>();
  switch (row.kind) {
    case KeyKind::Integer:
      if (value.is_number_integer()) return value.dump();
      throw BadInput("must be a whole number" + std::string(row.searchable ? ", or \"auto\"" : ""));
    case KeyKind::Switch:
      if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
      throw BadInput("must be true or false" + std::string(row.searchable ? ", or \"auto\"" : ""));
    default:
      throw BadInput("must be a text");
  }
}

void read_names(Plan& plan, const PlanKey& row, const json& value) {
  if (row.searchable && value == "auto") return set_plan_key(plan, row, "auto");
  const bool right = value.is_array() && !value.empty() && std::ranges::all_of(value, [](const json& v) { return v.is_string(); });
  if (!right) throw BadInput("must be a list of names" + std::string(row.searchable ? ", or \"auto\"" : ""));
  set_plan_key(plan, row, text_of_names(value.get<std::vector<std::string>>()));
}

[[noreturn]] void refuse(const std::string& path, const std::string& key, const std::string& what) {
  throw BadInput(path + ": " + key, what);
}

void read_section(Plan& plan, const std::string& path, const std::string& section, const json& values) {
  if (!values.is_object()) refuse(path, section, "must be an object of keys and values");
  std::string known;
  for (const auto& row : plan_keys())
    if (row.section == section) known += (known.empty() ? "" : ", ") + std::string(row.key);
  for (const auto& [key, value] : values.items()) {
    const auto* row = find_plan_key(key);
    if (row == nullptr || row->section != section) refuse(path, section + "." + key, "is no key here; known keys: " + known);
    try {
      if (row->kind == KeyKind::Names)
        read_names(plan, *row, value);
      else
        set_plan_key(plan, *row, text_of(*row, value));
    } catch (const BadInput& problem) {
      refuse(path, section + "." + key, problem.what());
    }
  }
}

const json& required(const json& context, const std::string& path, const std::string& key) {
  if (!context.contains(key)) refuse(path, "context." + key, "is missing");
  return context.at(key);
}

std::string required_text(const json& context, const std::string& path, const std::string& key) {
  const auto& value = required(context, path, key);
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) refuse(path, "context." + key, "must be a text that is not empty");
  return value.get<std::string>();
}

PlanContext read_context(const json& context, const std::string& path) {
  static constexpr std::array<std::string_view, 6> kKeys{"model", "model_hash", "batch", "loss", "dtype", "optimizer"};
  if (!context.is_object()) refuse(path, "context", "must be an object with model, model_hash, batch, loss and dtype");
  for (const auto& [key, value] : context.items())
    if (std::ranges::find(kKeys, key) == kKeys.end())
      refuse(path, "context." + key, "is no key here; known keys: model, model_hash, batch, loss, dtype, optimizer");
  PlanContext result;
  result.model = required_text(context, path, "model");
  result.model_hash = required_text(context, path, "model_hash");
  if (result.model_hash.size() != kHashDigits || result.model_hash.find_first_not_of("0123456789abcdef") != std::string::npos)
    refuse(path, "context.model_hash", "must be 16 hexadecimal digits (0-9, a-f)");
  result.loss = required_text(context, path, "loss");
  const json batch = required(context, path, "batch");
  if (!batch.is_number_integer() || batch < 1 || batch > std::numeric_limits<std::int64_t>::max())
    refuse(path, "context.batch", "must be a whole number of at least 1");
  result.batch = batch.get<std::int64_t>();
  const auto dtype = dtype_from_name(required_text(context, path, "dtype"));
  static constexpr std::array kTypes{DType::F32, DType::F64, DType::F16, DType::BF16};
  if (!dtype || std::ranges::find(kTypes, *dtype) == kTypes.end()) refuse(path, "context.dtype", "must be one of f32, f64, f16, bf16");
  result.dtype = *dtype;
  if (context.contains("optimizer")) result.optimizer = required_text(context, path, "optimizer");
  return result;
}

/// `searched` in the order of the table, whatever the order of the file.
void sort_searched(Plan& plan) {
  std::ranges::sort(plan.searched, {}, [](const std::string& key) { return find_plan_key(key); });
}

}  // namespace

PlanFile read_plan_file(const std::string& path) {
  const json document = platforms::read_json_file(path);
  if (!document.is_object()) throw BadInput(path, "a plan is an object with schema, context, mesh, pipeline, rules and placement");
  if (!document.contains("schema") || document.at("schema") != kPlanJsonSchema)
    refuse(path, "schema", "must be 1, the version that this program reads");
  if (!document.contains("context")) refuse(path, "context", "is missing: model, model_hash, batch, loss and dtype");
  PlanFile result;
  result.context = read_context(document.at("context"), path);
  for (const auto& [section, values] : document.items()) {
    if (section == "schema" || section == "context" || section == "$schema") continue;
    if (std::ranges::find(plan_keys(), section, &PlanKey::section) == plan_keys().end())
      refuse(path, section, "is no key here; known keys: schema, context, mesh, pipeline, rules, placement");
    read_section(result.plan, path, section, values);
  }
  sort_searched(result.plan);
  try {
    check_whole_plan(result.plan);
  } catch (const BadInput& problem) {
    refuse(path, "mesh", problem.what());
  }
  return result;
}

void write_plan_file(const std::string& path, const PlanFile& file) {
  const auto& context = file.context;
  nlohmann::ordered_json document;
  document["schema"] = kPlanJsonSchema;
  document["context"] = {{"model", context.model},
                         {"model_hash", context.model_hash},
                         {"batch", context.batch},
                         {"loss", context.loss},
                         {"dtype", std::string(name(context.dtype))}};
  if (!context.optimizer.empty()) document["context"]["optimizer"] = context.optimizer;
  for (const auto& row : plan_keys()) {
    const json value = value_in_json(row, file.plan);
    if (!value.is_null()) document[std::string(row.section)][std::string(row.key)] = value;
  }
  constexpr auto replace = nlohmann::ordered_json::error_handler_t::replace;  // a name that is no UTF-8 must not stop the file
  write_file_atomically(path, document.dump(2, ' ', false, replace) + "\n");
}

}  // namespace rehearsal::plan
