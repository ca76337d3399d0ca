#pragma once
// Text that comes from files, as a terminal may show it.

#include <string>
#include <string_view>

namespace rehearsal::cli {

/// `text` with every byte that could steer a terminal, or that is no UTF-8, written as \xNN. Line ends stay where `lines` says so.
[[nodiscard]] std::string printable(std::string_view text, bool lines);

}  // namespace rehearsal::cli
