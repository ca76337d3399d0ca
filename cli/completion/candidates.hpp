#pragma once
// What may stand next on a command line. The scripts of every shell ask for it (`rehearse complete`).

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace rehearsal::cli {

struct Completion {
  std::string word;  ///< the whole word; one that ends in '=' or ',' goes on
  std::string text;  ///< what it is, for shells that show it
};

using Completions = std::vector<Completion>;

/// `words`: those behind `rehearse`; the last one is being typed, and may be empty. None where a file, a number or a text of the user's own
/// is wanted.
[[nodiscard]] Completions candidates(const CLI::App& root, const std::vector<std::string>& words);

struct ShellRow {
  std::string_view name;
  std::string_view script;   ///< asks `rehearse complete -- WORDS`
  std::string_view install;  ///< what to type so that new shells have it
};
/// bash, zsh, fish.
[[nodiscard]] const std::vector<ShellRow>& shell_table();

}  // namespace rehearsal::cli
