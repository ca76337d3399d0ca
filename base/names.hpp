#pragma once
// Names that people type: options, commands, keys, models, machines. Case and signs between words do not matter, and an unknown name is
// answered with the nearest.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal {

using Names = std::vector<std::string_view>;

/// The names of the rows of a table (a member, or a function of a row). They must outlive the list.
template <class Range, class Name = std::identity>
[[nodiscard]] Names names_of_rows(const Range& rows, Name name = {}) {
  Names names;
  for (const auto& row : rows) names.emplace_back(std::invoke(name, row));
  return names;
}

[[nodiscard]] std::string lower_case(std::string_view text);
/// Lower case, without blanks, dashes, underscores, dots and slashes: "ResNet-50" and "resnet50" are one name.
[[nodiscard]] std::string plain_spelling(std::string_view name);

/// The name that `text` means: itself, else the only one of the same plain spelling; nothing where there is none.
[[nodiscard]] std::optional<std::string_view> find_name(std::string_view text, const Names&);

/// The name that differs least from `wrong`, at least half of whose letters it has; nothing where none is similar.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view wrong, const Names&);

/// The name from which `text` differs in one letter, more or other; nothing where there is none.
[[nodiscard]] std::optional<std::string> misspelt_name(std::string_view text, const Names&);

/// What follows "is unknown": "; did you mean "X"?" with the nearest name, else a full stop.
[[nodiscard]] std::string suggestion(std::string_view wrong, const Names&);

/// " Similar: A, B." with the names that begin with the same letters, or hold them; empty where none or too many do. For tables that are
/// too long to be told whole.
[[nodiscard]] std::string similar_names(std::string_view wrong, const Names&);

/// find_name(). Throws BadInput "WHERE: 'TEXT' is unknown; did you mean "X"? Known: ..." where there is none.
[[nodiscard]] std::string_view known_name(const std::string& where, std::string_view text, const Names&);

}  // namespace rehearsal
