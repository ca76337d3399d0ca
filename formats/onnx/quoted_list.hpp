#pragma once
// Lists in Python's notation, as PyTorch's exporter writes them into the metadata of nodes.

#include <string>
#include <vector>

namespace rehearsal::formats {

/// The entries of "['a', 'b']"; those before the damage where a quote is missing.
inline std::vector<std::string> quoted_entries(const std::string& text) {
  std::vector<std::string> entries;
  for (std::size_t at = text.find('\''); at != std::string::npos;) {
    const std::size_t end = text.find('\'', at + 1);
    if (end == std::string::npos) break;
    entries.push_back(text.substr(at + 1, end - at - 1));
    at = text.find('\'', end + 1);
  }
  return entries;
}

}  // namespace rehearsal::formats
