#include "cli/spelling.hpp"

#include <CLI/CLI.hpp>

namespace rehearsal::cli {

void as_name(CLI::Option* option, Names names) {
  option->transform([names = std::move(names)](const std::string& text) { return std::string(find_name(text, names).value_or(text)); });
}

}  // namespace rehearsal::cli
