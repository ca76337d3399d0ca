#include "cli/mixed_frameworks.hpp"

#include <nlohmann/json.hpp>

#include "base/join.hpp"

namespace rehearsal::cli {

void leave_out_one_framework(nlohmann::ordered_json& rows, const std::string& above) {
  const auto frameworks = frameworks_of(rows);
  if (frameworks.size() > 1 || !frameworks.contains(above)) return;
  for (auto& row : rows) row.erase("framework");
}

std::set<std::string> frameworks_of(const nlohmann::ordered_json& rows) {
  std::set<std::string> frameworks;
  for (const auto& row : rows)
    if (row.contains("framework")) frameworks.insert(row.at("framework").get<std::string>());
  return frameworks;
}

std::string mixed_frameworks(const std::set<std::string>& frameworks) {
  if (frameworks.size() < 2) return "";
  return "answers beside each other are as different frameworks run them (" + joined(frameworks) +
         "): part of the difference between such rows is that of the frameworks; name a --framework to compare under one";
}

}  // namespace rehearsal::cli
