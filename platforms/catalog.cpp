#include "platforms/catalog.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "platforms/devices.hpp"
#include "platforms/embedded_catalog.hpp"
#include "platforms/json.hpp"

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

namespace {

/// Of the machines that have the device which `text` means, the one of the shortest name: "h100" means dgx-h100.
std::optional<std::string> machine_of_device(const std::string& text, const Folders& folders) {
  const auto* device = find_device(text);
  std::optional<std::string> best;
  if (device == nullptr) return best;
  for (const auto& name : catalog_names(folders)) {
    if (best && best->size() <= name.size()) continue;
    if (const auto platform = load(name, folders); platform.nodes.front().device.name == device->name) best = name;
  }
  return best;
}

/// "512", "x8"
bool is_number(std::string_view word) {
  if (word.starts_with('x')) word.remove_prefix(1);
  return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

/// The name of the catalogue that is meant. Throws BadInput when there is none.
std::string name_of_platform(const std::string& text, const Folders& folders) {
  const auto names = catalog_names(folders);
  const Names all(names.begin(), names.end());
  if (const auto found = find_name(text, all)) return std::string(*found);
  if (auto machine = machine_of_device(text, folders)) {
    const auto others = words_beside(*find_device(text), text);
    if (others.empty()) return *machine;
    if (!std::ranges::any_of(others, is_number))
      throw BadInput("platform \"" + text + "\"", "is not in the catalogue; did you mean \"" + *machine + "\", which has that device?");
    throw BadInput("platform \"" + text + "\"", "is not in the catalogue: a machine of the device would be " + *machine + ", but " +
                                                    joined(others) + " stands beside it; how much of a machine is used is said by " +
                                                    "--devices and --nodes");
  }
  throw BadInput("platform \"" + text + "\"", "is not in the catalogue" + suggestion(text, all) + similar_names(text, all) +
                                                  " `rehearse platform list` lists all " + std::to_string(names.size()) +
                                                  "; a file is named with its .json");
}

}  // namespace

std::optional<std::filesystem::path> file_of(const std::string& name_or_path, const Folders& folders) {
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json")) return name_or_path;
  for (const auto& folder : folders) {
    const auto file = folder / (name_or_path + ".json");
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) return file;
  }
  return std::nullopt;
}

Platform load(const std::string& name_or_path, const Folders& folders) {
  if (const auto file = file_of(name_or_path, folders)) return read_platform_file(file->string());
  for (const auto& file : embedded_catalog())
    if (file.name == name_or_path) return read_platform_text(std::string(file.text), "catalog/" + name_or_path + ".json");
  return load(name_of_platform(name_or_path, folders), folders);
}

}  // namespace rehearsal::platforms
