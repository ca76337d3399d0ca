// .npy: arrays larger than memory. NAME.npy has one row a sample; a folder NAME has one sample a file, as volumes come.
#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "exec/data/arrays.hpp"
#include "exec/data/dataset_rows.hpp"
#include "exec/data/npz.hpp"

namespace rehearsal::exec {
namespace {

namespace fs = std::filesystem;

/// An array by its name: a file, several one after the other, or a folder of one sample each.
struct StoredArray {
  std::vector<std::string> files;
  std::string folder;  ///< empty: rows of files
};
using StoredArrays = std::map<std::string, StoredArray>;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(folder)) all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

bool is_array(const fs::path& path) { return path.extension() == ".npy"; }

bool holds_arrays(const fs::path& folder) {
  if (!fs::is_directory(folder)) return false;
  for (const auto& entry : fs::directory_iterator(folder))
    if (is_array(entry.path())) return true;
  return false;
}

void add_folder(const fs::path& folder, StoredArrays& arrays) {
  for (const auto& entry : entries_of(folder)) {
    if (is_array(entry)) arrays[entry.stem().string()].files.push_back(entry.string());
    if (!holds_arrays(entry)) continue;
    auto& array = arrays[entry.filename().string()];
    if (!array.files.empty()) throw BadInput(entry.string(), "is a folder, and there is an array of this name, too; leave one of them");
    array.folder = entry.string();
    for (const auto& file : entries_of(entry))
      if (is_array(file)) array.files.push_back(file.string());
  }
}

StoredArrays arrays_in(const std::vector<std::string>& paths) {
  StoredArrays arrays;
  for (const auto& path : paths) {
    if (fs::is_directory(path))
      add_folder(path, arrays);
    else if (fs::exists(path))
      arrays[fs::path(path).stem().string()].files.push_back(path);
    else
      throw BadInput(path, "does not exist");
  }
  if (arrays.empty()) throw BadInput(paths.front(), "holds no .npy arrays");
  return arrays;
}

/// With the file open_npy_rows where there are few.
ArrayBlock block_of(const std::string& path, bool one_sample) {
  auto file = std::make_shared<const StoredFile>(path);
  const auto header = npy_header(*file);
  ArrayBlock block{path, header.type};
  block.offset = static_cast<std::int64_t>(header.end);
  block.one_sample = one_sample;
  if (!one_sample) block.file = std::move(file);
  return block;
}

/// Samples of folders belong together by the names of their files.
void check_names(const StoredArray& one, const StoredArray& other) {
  if (one.folder.empty() || other.folder.empty()) return;
  const auto name = [](const std::string& path) { return fs::path(path).filename().string(); };
  for (const auto& file : one.files)
    if (std::none_of(other.files.begin(), other.files.end(), [&](const std::string& f) { return name(f) == name(file); }))
      throw BadInput(file, "has no file of the same name in " + other.folder);
}

std::unique_ptr<Dataset> open_npy_rows(const DatasetRequest& r) {
  const auto arrays = arrays_in(r.place.paths);
  std::vector<ArrayColumn> columns;
  const StoredArray* first = nullptr;
  std::vector<std::string> names;
  for (const auto& [name, array] : arrays) names.push_back(name);
  require_arrays(r.place.paths.front(), names, r.wanted);
  for (const auto& w : r.wanted) {
    const auto& name = array_of(w);
    const auto at = arrays.find(name);
    auto& column = columns.emplace_back(w);
    for (const auto& file : at->second.files) column.add(block_of(file, !at->second.folder.empty()), name);
    if (first == nullptr) first = &at->second;
    check_names(*first, at->second);
    check_names(at->second, *first);
  }
  return array_data(std::move(columns), false);
}

bool recognises_npy_rows(const std::string& path) {
  if (path.ends_with(".npy")) return true;
  if (!fs::is_directory(path)) return false;
  if (holds_arrays(path)) return true;
  const auto entries = fs::directory_iterator(path);
  return std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) { return holds_arrays(entry.path()); });
}

}  // namespace

DataKind npy_row() {
  return {"npy", "NAME.npy, or a folder of NAME.npy or of NAME/*.npy", {}, recognises_npy_rows, open_npy_rows, [](const DataPlace& place) {
            std::vector<std::string> names;
            for (const auto& [name, array] : arrays_in(place.paths)) names.push_back(name);
            return names;
          }};
}

}  // namespace rehearsal::exec
