#pragma once
// What options and arguments may be, where that is one of so many words: one table.

#include <optional>
#include <string_view>

#include "cli/completion/candidates.hpp"

namespace rehearsal::cli {

/// One for every word between commas.
[[nodiscard]] Completions completions_in(std::string_view words);

struct KnownValues {
  Completions values;
  bool list = false;  ///< several may stand there, separated by commas
};
/// `command` as it is typed behind `rehearse` ("platform show"), `name` as help has it ("--platform", "MODEL"). Nothing where a file, a
/// number or a text of the user's own is wanted, or where the parser knows the words itself.
[[nodiscard]] std::optional<KnownValues> known_values(std::string_view command, std::string_view name);

}  // namespace rehearsal::cli
