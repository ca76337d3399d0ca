#pragma once
// Which commit was built (cmake/Commit.cmake writes the answer).

#include <string_view>

namespace rehearsal::cli {

/// Abbreviated, with "-dirty" where files differed from it; empty where the sources are no repository.
[[nodiscard]] std::string_view commit();

}  // namespace rehearsal::cli
