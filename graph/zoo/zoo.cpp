#include "graph/zoo/zoo.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr std::string_view kPrefix = "zoo:";

const ZooParameter& parameter_named(const ZooRow& row, std::string_view name) {
  const auto names = names_of_rows(row.parameters, &ZooParameter::name);
  const auto found = find_name(name, names);
  if (!found)
    throw BadInput("zoo:" + std::string(row.name),
                   "takes no '" + std::string(name) + "'" + suggestion(name, names) + " It takes " + joined(names));
  return *std::ranges::find(row.parameters, *found, &ZooParameter::name);
}

void check_range(const ZooRow& row, const ZooParameter& parameter, std::int64_t value) {
  if (value >= parameter.least && value <= parameter.most) return;
  throw BadInput("zoo:" + std::string(row.name), std::string(parameter.name) + "=" + std::to_string(value) + " is outside " +
                                                     std::to_string(parameter.least) + " to " + std::to_string(parameter.most));
}

std::int64_t number(const ZooRow& row, const ZooParameter& parameter, std::string_view text) {
  const auto value = parse_number<std::int64_t>(text);
  if (!value) {
    throw BadInput("zoo:" + std::string(row.name), std::string(parameter.name) + "=" + std::string(text) + " is no whole number from " +
                                                       std::to_string(parameter.least) + " to " + std::to_string(parameter.most) +
                                                       (text.find(',') == std::string_view::npos ? "" : "; parameters are joined by &"));
  }
  check_range(row, parameter, *value);
  return *value;
}

/// Takes the text up to the next '&' off `rest`.
std::string_view next_assignment(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('&'), rest.size());
  const std::string_view item = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return item;
}

/// What stands in a reference must mean something. Defaults may be said again, as the text of a choice does.
void require_meaning(const ZooChoice& choice, std::string_view name, std::string_view given) {
  const ZooParameter& parameter = parameter_named(*choice.row, given);
  if (parameter.with.empty() || choice.values.find(parameter.with)->second != 0) return;
  const auto value = choice.values.find(parameter.name)->second;
  if (value == parameter.otherwise) return;
  throw BadInput("zoo:" + std::string(name), std::string(parameter.name) + "=" + std::to_string(value) + " has a meaning with " +
                                                 std::string(parameter.with) + " alone; give that, or leave it out");
}

/// Takes "key=value&..." into the values of a model that was asked for as `name`. Returns the keys.
std::set<std::string_view> assign(ZooChoice& choice, std::string_view name, std::string_view text) {
  std::set<std::string_view> given;
  while (!text.empty()) {
    const std::string_view item = next_assignment(text);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos)
      throw BadInput("zoo:" + std::string(name), "'" + std::string(item) + "' must be a parameter and a number, as in batch=8");
    const ZooParameter& parameter = parameter_named(*choice.row, item.substr(0, equals));
    if (!given.insert(parameter.name).second)
      throw BadInput("zoo:" + std::string(name), "'" + std::string(parameter.name) + "' is given twice; keep one");
    choice.values[std::string(parameter.name)] = number(*choice.row, parameter, item.substr(equals + 1));
  }
  return given;
}

/// The values of a row or preset.
ZooChoice defaults_of(std::string_view name) {
  const auto presets = zoo_presets();
  if (const auto preset = std::ranges::find(presets, name, &ZooPreset::name); preset != presets.end()) {
    ZooChoice choice = defaults_of(preset->model);
    assign(choice, name, preset->values);
    return choice;
  }
  const auto rows = zoo_table();
  const auto row = std::ranges::find(rows, name, &ZooRow::name);
  ensure(row != rows.end(), "a preset is of a model of the zoo");
  ZooChoice choice{&*row, {}};
  for (const ZooParameter& p : row->parameters) choice.values.emplace(p.name, p.otherwise);
  return choice;
}

}  // namespace

std::span<const ZooRow> zoo_table() {
  static const std::vector<ZooRow> kRows = [] {
    std::vector<ZooRow> rows;
    for (const auto family : kFamilies) {
      const auto more = family();
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  }();
  return kRows;
}

ZooChoice parse(std::string_view reference) { return parse(reference, {}); }

ZooChoice parse(std::string_view reference, const ZooValues& defaults) {
  if (reference.substr(0, kPrefix.size()) == kPrefix) reference.remove_prefix(kPrefix.size());
  const std::size_t question = std::min(reference.find('?'), reference.size());
  const std::string_view name = reference.substr(0, question);
  const auto rows = zoo_table();
  const auto presets = zoo_presets();
  auto names = names_of_rows(rows, &ZooRow::name);
  for (const ZooPreset& preset : presets) names.push_back(preset.name);
  const auto found = find_name(name, names);
  if (!found)
    throw BadInput("zoo:" + std::string(name), "there is no such model" + suggestion(name, names) + similar_names(name, names) +
                                                   " `rehearse zoo` lists all " + std::to_string(names.size()));
  ZooChoice choice = defaults_of(*found);
  for (const auto& [key, value] : defaults) {
    check_range(*choice.row, parameter_named(*choice.row, key), value);
    choice.values[key] = value;
  }
  for (const auto given : assign(choice, name, reference.substr(std::min(question + 1, reference.size()))))
    require_meaning(choice, name, given);
  return choice;
}

std::string to_text(const ZooChoice& choice) {
  return std::string(kPrefix) + std::string(choice.row->name) + "?" +
         joined(choice.values, "&", [](const auto& value) { return value.first + "=" + std::to_string(value.second); });
}

Graph build(std::string_view reference, std::optional<std::int64_t> batch) {
  ZooChoice choice = parse(reference);
  if (batch) {
    check_range(*choice.row, parameter_named(*choice.row, "batch"), *batch);
    choice.values["batch"] = *batch;
  }
  return choice.row->build(choice.values);
}

}  // namespace rehearsal::graph::zoo
