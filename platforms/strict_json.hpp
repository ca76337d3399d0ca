#pragma once
// JSON as users may hand it to us: depth and size are limited, a key given twice is refused, every refusal names the file.

#include <exception>
#include <functional>
#include <iosfwd>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace rehearsal::platforms {

/// Nesting beyond this is refused; real files of ours stay below 20.
inline constexpr int kDeepestJson = 100;
/// Larger files are refused unread.
inline constexpr std::size_t kLargestJson = std::size_t{256} << 20;

/// What the JSON library says of a problem, without its own numbers.
[[nodiscard]] std::string reason_of(const std::exception& problem);

/// Throws BadInput naming `where` (a file name) and the line and column, or the key that is given twice.
[[nodiscard]] nlohmann::json parse_strict_json(const std::string& text, const std::string& where);

/// Every line that is not blank, in order, with its number from 1 on. Throws BadInput naming `where` and the line: of what
/// parse_strict_json() refuses, and of what `take` throws as BadInput.
void for_each_json_line(std::istream&, const std::string& where, const std::function<void(const nlohmann::json&, int line)>& take);
/// The same of a file. `what` it is stands in the message when it cannot be read, or is a folder.
void for_each_json_line(const std::string& path, const char* what, const std::function<void(const nlohmann::json&, int line)>& take);

/// Throws BadInput when the file is missing, a folder, unreadable, larger than kLargestJson, or no JSON.
[[nodiscard]] nlohmann::json read_json_file(const std::string& path);

}  // namespace rehearsal::platforms
