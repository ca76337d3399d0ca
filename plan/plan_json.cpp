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
std::string key_text_of(const PlanKey& row, const json& value) {
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
        set_plan_key(plan, *row, key_text_of(*row, value));
    } catch (const BadInput& problem) {
      refuse(path, section + "." + key, problem.what());
    }
  }
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
  nlohmann::ordered_json document;
  document["schema"] = kPlanJsonSchema;
  document["context"] = context_json(file.context);
  for (const auto& row : plan_keys()) {
    const json value = value_in_json(row, file.plan);
    if (!value.is_null()) document[std::string(row.section)][std::string(row.key)] = value;
  }
  constexpr auto replace = nlohmann::ordered_json::error_handler_t::replace;  // a name that is no UTF-8 must not stop the file
  write_file_atomically(path, document.dump(2, ' ', false, replace) + "\n");
}

}  // namespace rehearsal::plan
