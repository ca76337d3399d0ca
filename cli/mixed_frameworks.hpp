#pragma once
// Answers beside each other that are not all of one framework: each says which, and the reader is warned.

#include <set>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace rehearsal::cli {

/// Takes `framework` out of rows that are all answered as `above`, which stands above them; else every row that is answered keeps it.
void leave_out_one_framework(nlohmann::ordered_json& rows, const std::string& above);
/// Those that rows say.
[[nodiscard]] std::set<std::string> frameworks_of(const nlohmann::ordered_json& rows);
/// What is to be said of them; empty where one runs all.
[[nodiscard]] std::string mixed_frameworks(const std::set<std::string>& frameworks);

}  // namespace rehearsal::cli
