#include "validation/answers.hpp"

#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::validation {
namespace {

using Json = nlohmann::json;
using costmodel::Interval;

/// What one line says, before it is known which records it is of.
struct Said {
  std::string refused;
  std::map<std::string, Interval> predicted;
};

double positive_number(const Json& value, const std::string& key) {
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0)
    throw BadInput("predicted." + key + " must be a positive number, it is " + value.dump());
  return value.get<double>();
}

Interval interval_of(const Json& value, const std::string& key) {
  if (!value.is_object()) {
    const double number = positive_number(value, key);
    return {number, number, number};
  }
  if (!value.contains("value")) throw BadInput("predicted." + key + ": an object needs \"value\", and may have \"low\" and \"high\"");
  Interval interval;
  interval.value = positive_number(value["value"], key + ".value");
  interval.low = value.contains("low") ? positive_number(value["low"], key + ".low") : interval.value;
  interval.high = value.contains("high") ? positive_number(value["high"], key + ".high") : interval.value;
  if (interval.low > interval.value || interval.value > interval.high)
    throw BadInput("predicted." + key + ": low, value and high must rise");
  return interval;
}

Said said_in(const Json& line) {
  Said said;
  const auto refused = line.find("refused"), predicted = line.find("predicted");
  if ((refused == line.end()) == (predicted == line.end())) throw BadInput("an answer has either \"predicted\" or \"refused\"");
  if (refused != line.end()) {
    if (!refused->is_string() || refused->get<std::string>().empty()) throw BadInput("refused must be a text that says why");
    said.refused = refused->get<std::string>();
    return said;
  }
  if (!predicted->is_object()) throw BadInput("predicted must be an object");
  for (const auto& [key, value] : predicted->items())
    if (!value.is_null()) said.predicted[key] = interval_of(value, key);
  if (said.predicted.empty()) said.refused = kNotAnswered;
  return said;
}

void read_line(const Json& line, std::map<std::string, Said>& of_id) {
  if (!line.is_object()) throw BadInput("an answer is an object");
  if (line.contains("summary") && !line.contains("id")) return;
  const auto id = line.find("id");
  if (id == line.end() || !id->is_string()) throw BadInput("'id' is missing; it names the record that is answered");
  if (!of_id.emplace(id->get<std::string>(), said_in(line)).second) throw BadInput("'" + id->get<std::string>() + "' is answered twice");
}

Verdict verdict_of(const Record& record, const Said* said) {
  auto verdict = unanswered(record);
  if (said == nullptr || !said->refused.empty()) {
    verdict.refused = said == nullptr ? kNotAnswered : said->refused;
    return verdict;
  }
  for (const auto& [key, interval] : said->predicted)
    if (record.measured.has(key)) predict_as(verdict, record, key, interval);
  if (verdict.predicted.empty()) verdict.refused = kNotAnswered;
  return verdict;
}

std::set<std::string> unmeasured_keys(const std::map<std::string, Said>& of_id, std::span<const Record> records) {
  std::set<std::string> keys;
  for (const auto& [id, said] : of_id)
    for (const auto& [key, interval] : said.predicted) keys.insert(key);
  for (const auto& record : records)
    for (const auto& [key, field] : record.measured.all()) keys.erase(key);
  return keys;
}

AnswerFile answers_of(const std::map<std::string, Said>& of_id, std::span<const Record> records) {
  AnswerFile file;
  for (const auto& [id, said] : of_id) file.unknown_ids.insert(id);
  for (const auto& record : records) {
    const auto said = of_id.find(record.id);
    file.verdicts.push_back(verdict_of(record, said == of_id.end() ? nullptr : &said->second));
    file.unknown_ids.erase(record.id);
  }
  file.unknown_keys = unmeasured_keys(of_id, records);
  return file;
}

}  // namespace

AnswerFile read_answers(std::istream& in, const std::string& where, std::span<const Record> records) {
  std::map<std::string, Said> of_id;
  platforms::for_each_json_line(in, where, [&](const Json& line, int) { read_line(line, of_id); });
  return answers_of(of_id, records);
}

AnswerFile read_answer_file(const std::string& path, std::span<const Record> records) {
  std::map<std::string, Said> of_id;
  platforms::for_each_json_line(path, "a file of answers", [&](const Json& line, int) { read_line(line, of_id); });
  return answers_of(of_id, records);
}

}  // namespace rehearsal::validation
