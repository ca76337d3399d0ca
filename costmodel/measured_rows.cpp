#include "costmodel/measured_rows.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::costmodel {
namespace {

MeasuredRow measured_row(const nlohmann::json& json, const std::string& where) {
  std::map<std::string, std::string> words;
  std::map<std::string, double> numbers;
  for (const auto& [key, value] : json.get<nlohmann::json::object_t>()) {
    if (value.is_string()) words.emplace(key, value.get<std::string>());
    if (value.is_number()) numbers.emplace(key, value.get<double>());
  }
  return {where, std::move(words), std::move(numbers)};
}

}  // namespace

const std::string& MeasuredRow::word(const std::string& key) const {
  const auto at = words_.find(key);
  if (at == words_.end()) throw BadInput(where_, "rows: a row has no word '" + key + "'");
  return at->second;
}

double MeasuredRow::number(const std::string& key, double low, double high) const {
  const auto of = " of \"" + word("generation") + "\"", range = "from " + std::to_string(low) + " to " + std::to_string(high);
  const auto at = numbers_.find(key);
  if (at == numbers_.end()) throw BadInput(where_, "rows: " + key + of + " is missing; it is a number " + range);
  if (!(at->second >= low && at->second <= high))
    throw BadInput(where_, "rows: " + key + " = " + nlohmann::json(at->second).dump() + of + " must be " + range);
  return at->second;
}

std::vector<MeasuredRow> measured_rows(const std::string& text, const std::string& where) {
  try {
    std::vector<MeasuredRow> rows;
    const auto file = platforms::parse_strict_json(text, where);
    for (const auto& row : file.at("rows")) rows.push_back(measured_row(row, where));
    return rows;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(where, platforms::reason_of(error));
  }
}

}  // namespace rehearsal::costmodel
