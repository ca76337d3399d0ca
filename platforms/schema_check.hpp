#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace rehearsal::platforms {

/// Throws BadInput naming `where` and the path when the platform breaks the published schema (platform_schema()).
void check_against_schema(const nlohmann::json& platform, const std::string& where);

}  // namespace rehearsal::platforms
