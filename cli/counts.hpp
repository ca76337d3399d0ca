#pragma once
// Counts on the command line: 1500, 1e9, 15B.

#include <string>

namespace CLI {
class Option;
}

namespace rehearsal::cli {

/// A whole number that is written with an exponent ("1e9") or with k, M, B or T behind it ("1.5T") as its digits; any other text as it is.
[[nodiscard]] std::string count_digits(const std::string& text);

/// The option takes such counts.
void as_count(CLI::Option*);

}  // namespace rehearsal::cli
