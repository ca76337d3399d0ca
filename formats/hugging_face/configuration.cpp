#include "formats/hugging_face/configuration.hpp"

#include <fstream>
#include <iterator>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/names.hpp"

namespace rehearsal::formats {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMost = 1'000'000'000;

/// Python writes numbers that JSON does not have: null in their place, outside of texts.
std::string without_infinities(const std::string& text) {
  std::string result;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"' && (at == 0 || text[at - 1] != '\\')) quoted = !quoted;
    bool replaced = false;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"})
      if (!quoted && !replaced && std::string_view(text).substr(at, word.size()) == word) {
        result += "null";
        at += word.size() - 1;
        replaced = true;
      }
    if (!replaced) result += text[at];
  }
  return result;
}

Json read(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw BadInput(file, "cannot be read; hf: takes a model's config.json, or its folder");
  auto values = Json::parse(without_infinities({std::istreambuf_iterator<char>(in), {}}), nullptr, false);
  if (values.is_discarded()) throw BadInput(file, "is not JSON");
  if (!values.is_object()) throw BadInput(file, "is no JSON object; a config.json is one");
  return values;
}

}  // namespace

struct Configuration::Values {
  Json json;
  mutable std::set<std::string, std::less<>> asked;
  [[nodiscard]] const Json& at(std::string_view key) const {
    static const Json kNull;
    asked.emplace(key);
    const auto found = json.find(key);
    return found == json.end() ? kNull : *found;
  }
};

Configuration::Configuration(const std::string& file) : file_(file), values_(std::make_shared<const Values>(Values{read(file), {}})) {}

Configuration::Configuration(std::string file, std::string prefix, std::shared_ptr<const Values> values)
    : file_(std::move(file)), prefix_(std::move(prefix)), values_(std::move(values)) {}

Configuration Configuration::part(const std::string& key) const {
  if (!is_object(key)) refuse(key, "must be an object");
  Json values = values_->at(key);
  for (const char* shared : {"tie_word_embeddings"})
    if (!values.contains(shared) && has(shared)) values[shared] = values_->at(shared);
  return {file_, prefix_ + key + ".", std::make_shared<const Values>(Values{std::move(values), {}})};
}

void Configuration::refuse_misspelt() const {
  Names missing;
  for (const auto& key : values_->asked)
    if (!values_->json.contains(key)) missing.push_back(key);
  for (const auto& [key, value] : values_->json.items())
    if (const auto meant = misspelt_name(key, missing); meant && !values_->asked.contains(key))
      refuse(key, "is no key that is read; " + *meant + " is, and is not there");
}

bool Configuration::is_object(std::string_view key) const { return values_->at(key).is_object(); }

bool Configuration::is_filled_list(std::string_view key) const { return values_->at(key).is_array() && !values_->at(key).empty(); }

std::vector<std::string> Configuration::texts(const std::string& key) const {
  std::vector<std::string> result;
  const auto& list = values_->at(key);
  if (list.is_null()) return result;
  if (!list.is_array()) refuse(key, "must be a list of texts");
  for (const auto& item : list) {
    if (!item.is_string()) refuse(key, "has " + item.dump() + "; it must be a list of texts");
    result.push_back(item.get<std::string>());
  }
  return result;
}

std::vector<std::int64_t> Configuration::counts(const std::string& key) const {
  std::vector<std::int64_t> result;
  const auto& list = values_->at(key);
  if (list.is_null()) return result;
  if (!list.is_array()) refuse(key, "must be a list of whole numbers");
  for (const auto& item : list) {
    if (!item.is_number_integer() || item < 0 || item > kMost) refuse(key, "has " + item.dump() + "; it must be a list of whole numbers");
    result.push_back(item.get<std::int64_t>());
  }
  return result;
}

std::vector<double> Configuration::numbers(const std::string& key) const {
  const auto& list = values_->at(key);
  if (list.is_null()) return {};
  if (!list.is_array()) return {number(key, 0)};
  std::vector<double> result;
  for (const auto& item : list) {
    if (!item.is_number() || !(item.get<double>() > 0) || item.get<double>() > kMost)
      refuse(key, "has " + item.dump() + "; it must be a list of numbers above 0");
    result.push_back(item.get<double>());
  }
  return result;
}

bool Configuration::has(std::string_view key) const { return !values_->at(key).is_null(); }

bool Configuration::absent(std::string_view key) const { return !has(key) && !values_->json.contains(key); }

void Configuration::refuse(const std::string& key, const std::string& what) const { throw BadInput(file_ + ": " + prefix_ + key, what); }

std::int64_t Configuration::size(const std::string& key) const {
  if (!has(key)) refuse(key, "is missing");
  const auto n = count(key, 0);
  if (n < 1) refuse(key, "is 0; it must be at least 1");
  return n;
}

std::int64_t Configuration::size(const std::string& key, std::int64_t otherwise) const { return has(key) ? size(key) : otherwise; }

std::int64_t Configuration::count(const std::string& key, std::int64_t otherwise) const {
  const auto& v = values_->at(key);
  if (v.is_null()) return otherwise;
  if (!v.is_number_integer() || v < 0 || v > kMost)
    refuse(key, "is " + v.dump() + "; it must be a whole number from 0 to " + std::to_string(kMost));
  return v.get<std::int64_t>();
}

double Configuration::number(const std::string& key, double otherwise) const {
  const auto& v = values_->at(key);
  if (v.is_null()) return otherwise;
  if (!v.is_number() || !(v.get<double>() > 0) || v.get<double>() > kMost) refuse(key, "is " + v.dump() + "; it must be a number above 0");
  return v.get<double>();
}

bool Configuration::flag(const std::string& key, bool otherwise) const {
  const auto& v = values_->at(key);
  if (v.is_null()) return otherwise;
  if (!v.is_boolean()) refuse(key, "is " + v.dump() + "; it must be true or false");
  return v.get<bool>();
}

std::string Configuration::text(const std::string& key, std::string_view otherwise) const {
  const auto& v = values_->at(key);
  if (v.is_null()) return std::string(otherwise);
  if (!v.is_string()) refuse(key, "is " + v.dump() + "; it must be a text");
  return v.get<std::string>();
}

}  // namespace rehearsal::formats
