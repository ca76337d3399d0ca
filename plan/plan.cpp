#include "plan/plan.hpp"

#include "base/error.hpp"
#include "base/join.hpp"
#include "plan/plan_keys.hpp"

namespace rehearsal::plan {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

struct PlanEntry {
  const PlanKey* row;
  std::string value;
};

PlanEntry parse_entry(const std::string& entry) {
  const auto equals = entry.find('=');
  const std::string key = trimmed(entry.substr(0, equals));
  if (key.empty()) throw BadInput("an entry is empty in front of a comma or '='; write KEY=VALUE,KEY=VALUE as in dp=2,micro_batch=4");
  const auto* row = find_plan_key(key);
  if (row == nullptr) throw BadInput(no_plan_key(key));
  const std::string value = equals == std::string::npos ? "" : trimmed(entry.substr(equals + 1));
  if (value.empty()) throw BadInput(key + " needs a value: " + key + "=... (" + std::string(row->description) + ")");
  return {row, value};
}

std::vector<PlanEntry> entries_of(const std::string& text) {
  std::vector<PlanEntry> entries;
  for (const auto& entry : split(text, ',')) entries.push_back(parse_entry(entry));
  return entries;
}

Plan parse_keys(const std::string& text) {
  const auto entries = entries_of(text);
  Plan plan;
  for (const auto& row : plan_keys()) {  // in the order of the table, so that `searched` does not depend on the order of the text
    const auto given = std::ranges::count(entries, &row, &PlanEntry::row);
    if (given > 1) throw BadInput(std::string(row.key) + " is given " + std::to_string(given) + " times");
    if (given == 1) set_plan_key(plan, row, std::ranges::find(entries, &row, &PlanEntry::row)->value);
  }
  check_whole_plan(plan);
  return plan;
}

}  // namespace

Plan parse_plan(const std::string& text) {
  try {
    return parse_keys(text);
  } catch (const BadInput& problem) {
    throw BadInput("plan", problem.what());
  }
}

std::vector<std::string_view> named_keys(const std::string& text) {
  std::vector<std::string_view> keys;
  for (const auto& entry : entries_of(text)) keys.push_back(entry.row->key);
  return keys;
}

std::string to_text(const Plan& plan) {
  std::string text;
  for (const auto& row : plan_keys()) {
    const bool searched = std::ranges::find(plan.searched, row.key) != plan.searched.end();
    if (row.key == "dp" || searched || is_set(row, plan))
      text += (text.empty() ? "" : ",") + std::string(row.key) + "=" + (searched ? "auto" : row.print(plan));
  }
  return text;
}

}  // namespace rehearsal::plan
