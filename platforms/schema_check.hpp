#pragma once
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace rehearsal::platforms {

/// Throws BadInput naming `where` and the path when the platform breaks the published schema (platform_schema()).
void check_against_schema(const nlohmann::json& platform, const std::string& where);

/// A schema (draft 7), and what follows it.
struct PublishedSchema {
  std::string_view noun;  ///< "platform"
  std::string_view text;
};
/// The same of another schema.
void check_against_schema(const nlohmann::json& value, const std::string& where, const PublishedSchema&);

}  // namespace rehearsal::platforms
