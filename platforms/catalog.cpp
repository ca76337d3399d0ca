#include "platforms/catalog.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/error.hpp"
#include "base/join.hpp"
#include "platforms/embedded.hpp"
#include "platforms/json.hpp"
#include "platforms/object_reader.hpp"

namespace rehearsal::platforms {

Folders catalog_folders() {
  Folders folders;
  const char* named = std::getenv("REHEARSAL_CATALOG");
  std::istringstream list(named == nullptr ? "" : named);
  for (std::string folder; std::getline(list, folder, ':');)
    if (!folder.empty()) folders.emplace_back(folder);
  return folders;
}

std::vector<std::string> catalog_names(const Folders& folders) {
  std::vector<std::string> names;
  for (const auto& file : embedded_catalog()) names.emplace_back(file.name);
  for (const auto& folder : folders) {
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(folder, missing))
      if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Platform load(const std::string& name_or_path, const Folders& folders) {
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json")) return read_platform_file(name_or_path);
  for (const auto& folder : folders) {
    const auto file = folder / (name_or_path + ".json");
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) return read_platform_file(file.string());
  }
  for (const auto& file : embedded_catalog())
    if (file.name == name_or_path) return read_platform_text(std::string(file.text), "catalog/" + name_or_path + ".json");
  const auto names = catalog_names(folders);
  const auto near = nearest_name(name_or_path, names);
  throw BadInput("platform \"" + name_or_path + "\"",
                 (near ? "is not in the catalogue; did you mean \"" + *near + "\"?" : "is not in the catalogue.") + " It has " +
                     joined(names) + "; a file is named with its .json");
}

}  // namespace rehearsal::platforms
