#pragma once
// Platforms by name. The machines of platforms/catalog/ are part of the library; folders of a user's own come first.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "platforms/platform.hpp"

namespace rehearsal::platforms {

using Folders = std::vector<std::filesystem::path>;

/// The folders named by the environment variable REHEARSAL_CATALOG (separated by ':'), or none.
[[nodiscard]] Folders catalog_folders();

/// Names that load() knows: "*.json" of the folders and the built-in machines, sorted, each once.
[[nodiscard]] std::vector<std::string> catalog_names(const Folders& folders = catalog_folders());

/// The file that load() reads for it; nothing where it is a machine of the library.
[[nodiscard]] std::optional<std::filesystem::path> file_of(const std::string& name_or_path, const Folders& folders = catalog_folders());

/// A platform by name or by file: what holds a '/' or ends in ".json" is a file.
/// Throws BadInput when there is none, with the nearest name, or when the file is wrong.
[[nodiscard]] Platform load(const std::string& name_or_path, const Folders& folders = catalog_folders());

}  // namespace rehearsal::platforms
