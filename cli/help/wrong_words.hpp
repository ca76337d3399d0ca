#pragma once
// What is said of a command line that the parser does not take: what is wrong, what would be right, and an example.

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
class Validator;
}  // namespace CLI

namespace rehearsal::cli {

/// One sentence; options that a command does not have come before what seems to be missing.
[[nodiscard]] std::string about_wrong_words(const CLI::App& root, const CLI::ParseError&);

/// Takes one of the names in whatever spelling; says the nearest one of another. Help and completion list them.
[[nodiscard]] CLI::Validator one_of(const std::vector<std::string>& names);

}  // namespace rehearsal::cli
