#include "exchange/frameworks/flags.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <regex>
#include <sstream>

#include "base/error.hpp"
#include "base/parse_number.hpp"

namespace rehearsal::exchange {
namespace {

/// Words of a line without quotes and without what follows a #.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream in(line);
  for (std::string word; in >> word && !word.starts_with('#');) {
    std::erase_if(word, [](char c) { return c == '"' || c == '\''; });
    if (!word.empty() && word != "\\") words.push_back(word);
  }
  return words;
}

bool is_name(std::string_view text) {
  constexpr std::string_view kSigns = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  return !text.empty() && text.find_first_not_of(kSigns) == std::string::npos;
}

/// Words of a shell that are no value of the flag before them: signs, arrays of flags, the program.
bool ends_values(const std::string& word) {
  constexpr std::array<std::string_view, 8> kSigns{"(", ")", "|", "&&", "&", ";", ">", "2>&1"};
  return std::ranges::find(kSigns, word) != kSigns.end() || word.find("[@]") != std::string::npos || word.ends_with(".py") ||
         word.ends_with("_ARGS");
}

}  // namespace

Flags::Flags(const std::string& text, std::string file) : file_(std::move(file)) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) read_line(line);
}

Flags::Flags(const Settings& settings, std::string file) : file_(std::move(file)) {
  for (const auto& [key, value] : settings) flags_[key] = {{value}, false};
}

void Flags::read_line(const std::string& line) {
  std::string open;
  bool first = true;
  for (auto word : words_of(line)) {
    const auto equals = word.find('=');
    if (first && word == "export") continue;
    if (first && equals != std::string::npos && is_name(std::string_view(word).substr(0, equals))) {
      open.clear();
      const auto value = word.substr(equals + 1);
      if (!value.starts_with("--") && value != "(") variables_[word.substr(0, equals)] = replaced(value);
      if (!value.starts_with("--")) continue;
      word = value;
    }
    first = false;
    add(word, open);
  }
}

void Flags::add(const std::string& word, std::string& open) {
  if (!word.starts_with("--")) {
    if (ends_values(word)) open.clear();
    if (!open.empty()) flags_[open].values.push_back(replaced(word));
    return;
  }
  const auto end = word.find_first_of("=:");
  open = word.substr(0, end);
  std::ranges::replace(open, '_', '-');
  flags_[open] = {};
  if (end != std::string::npos && end + 1 < word.size()) flags_[open].values.push_back(replaced(word.substr(end + 1)));
}

std::string Flags::replaced(const std::string& word) const {
  static const std::regex kVariable(R"(\$(?:(\w+)|\{(\w+)(?::?-([^}]*))?\}))");
  constexpr std::size_t kLongest = 4096;  // of a word and of a value: variables that hold themselves twice grow without end
  std::smatch m;
  if (word.size() > kLongest || !std::regex_search(word, m, kVariable)) return word;
  const auto found = variables_.find(m[1].matched ? m[1].str() : m[2].str());
  if (found == variables_.end() && !m[3].matched) return word;
  auto result = m.prefix().str() + (found == variables_.end() ? m[3].str() : found->second) + replaced(m.suffix().str());
  return result.size() > kLongest ? word : result;
}

Flags::Flag* Flags::find(std::string_view flag) {
  const auto found = flags_.find(flag);
  if (found == flags_.end()) return nullptr;
  found->second.asked = true;
  const auto& values = found->second.values;
  return values.size() == 1 && (values[0] == "false" || values[0] == "False") ? nullptr : &found->second;
}

bool Flags::has(std::string_view flag) { return find(flag) != nullptr; }
bool Flags::denied(std::string_view flag) { return flags_.contains(flag) && find(flag) == nullptr; }

std::optional<std::string> Flags::text(std::string_view flag) {
  const auto* found = find(flag);
  if (found == nullptr) return std::nullopt;
  const auto where = file_ + ": " + std::string(flag);
  if (found->values.size() != 1) throw BadInput(where, "must have one value, and has " + std::to_string(found->values.size()));
  if (found->values[0].find('$') != std::string::npos)
    throw BadInput(where, "is " + found->values[0] + ", which nothing in the file sets; write its value");
  return found->values[0];
}

std::optional<std::int64_t> Flags::whole(std::string_view flag) {
  const auto given = text(flag);
  if (!given) return std::nullopt;
  constexpr std::int64_t kMost = 1'000'000'000;  // products of two fit in 64 bits
  const auto value = parse_number<std::int64_t>(*given);
  if (!value || *value < 0 || *value > kMost)
    throw BadInput(file_ + ": " + std::string(flag), "is '" + *given + "', and must be a whole number up to 1000000000");
  return value;
}

std::optional<double> Flags::number(std::string_view flag) {
  const auto given = text(flag);
  if (!given) return std::nullopt;
  constexpr double kMost = 1e9;
  const auto value = parse_number<double>(*given);
  if (!value || !(std::abs(*value) <= kMost))
    throw BadInput(file_ + ": " + std::string(flag), "is '" + *given + "', and must be a number up to 1e9");
  return value;
}

std::vector<std::string> Flags::rest() const {
  std::vector<std::string> names;
  for (const auto& [name, flag] : flags_)
    if (!flag.asked) names.push_back(name);
  return names;
}

}  // namespace rehearsal::exchange
