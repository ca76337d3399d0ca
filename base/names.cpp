#include "base/names.hpp"

#include <algorithm>
#include <cctype>

#include "base/error.hpp"
#include "base/join.hpp"

namespace rehearsal {
namespace {

constexpr std::size_t kLongestName = 64;
constexpr std::size_t kMostWrongLetters = 4;

/// Letters that are missing, too many, wrong, or swapped with the next one (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> least(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      auto& here = least[i][j];
      if (i == 0 || j == 0) {
        here = i + j;
        continue;
      }
      here = std::min({least[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1), least[i][j - 1] + 1, least[i - 1][j] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) here = std::min(here, least[i - 2][j - 2] + 1);
    }
  }
  return least[a.size()][b.size()];
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string plain_spelling(std::string_view name) {
  constexpr std::string_view kSigns = " -_./";
  std::string plain;
  for (const char c : name)
    if (kSigns.find(c) == std::string_view::npos) plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

std::optional<std::string_view> find_name(std::string_view text, const Names& names) {
  if (const auto same = std::ranges::find(names, text); same != names.end()) return *same;
  const auto plain = plain_spelling(text);
  std::optional<std::string_view> found;
  for (const auto name : names) {
    if (plain.empty() || plain_spelling(name) != plain) continue;
    if (found) return std::nullopt;
    found = name;
  }
  return found;
}

std::optional<std::string> nearest_name(std::string_view wrong, const Names& names) {
  std::optional<std::string> best;
  if (wrong.size() > kLongestName) return best;
  const auto plain = plain_spelling(wrong);
  std::size_t least = std::min(kMostWrongLetters, plain.size() / 2 + 1);
  for (const auto name : names) {
    const auto distance = edit_distance(plain, plain_spelling(name));
    if (distance >= least) continue;
    least = distance;
    best = name;
  }
  return best;
}

std::optional<std::string> misspelt_name(std::string_view text, const Names& names) {
  if (text.size() > kLongestName) return std::nullopt;
  const auto near = std::ranges::find_if(names, [&](std::string_view name) { return edit_distance(text, name) == 1; });
  return near == names.end() ? std::nullopt : std::optional(std::string(*near));
}

std::string suggestion(std::string_view wrong, const Names& names) {
  const auto near = nearest_name(wrong, names);
  return near ? "; did you mean \"" + *near + "\"?" : ".";
}

std::string similar_names(std::string_view wrong, const Names& names) {
  constexpr std::size_t kFewestLetters = 2, kMostTold = 16;
  const auto plain = plain_spelling(wrong);
  const auto letters = plain.substr(0, std::ranges::find_if(plain, [](unsigned char c) { return std::isalpha(c) == 0; }) - plain.begin());
  if (letters.size() < kFewestLetters) return {};
  Names similar;
  for (const auto name : names)
    if (plain_spelling(name).find(letters) != std::string::npos) similar.push_back(name);
  return similar.empty() || similar.size() > kMostTold ? std::string() : " Similar: " + joined(similar) + ".";
}

std::string_view known_name(const std::string& where, std::string_view text, const Names& names) {
  if (const auto found = find_name(text, names)) return *found;
  throw BadInput(where, "'" + std::string(text) + "' is unknown" + suggestion(text, names) + " Known: " + joined(names));
}

}  // namespace rehearsal
