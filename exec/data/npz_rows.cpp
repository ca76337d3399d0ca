// .npz: arrays with names, held in memory.
#include "exec/data/arrays.hpp"
#include "exec/data/dataset_rows.hpp"
#include "exec/data/npz.hpp"

namespace rehearsal::exec {
namespace {

std::unique_ptr<Dataset> open_npz_rows(const DatasetRequest& r) {
  std::vector<ArrayColumn> columns;
  for (const auto& w : r.wanted) columns.emplace_back(w);
  for (const auto& path : r.place.paths) {
    std::map<std::string, std::shared_ptr<const NpyArray>> arrays;
    for (auto& [name, array] : read_npz(path)) arrays[name] = std::make_shared<const NpyArray>(std::move(array));
    require_arrays(path, npz_names(path), r.wanted);
    for (std::size_t i = 0; i < r.wanted.size(); ++i) {
      const auto& w = r.wanted[i];
      const auto& name = array_of(w);
      const auto at = arrays.find(name);
      if (!w.per_sample && path != r.place.paths.front()) continue;
      ArrayBlock block{path, at->second->type};
      block.bytes = std::shared_ptr<const std::vector<std::byte>>(at->second, &at->second->bytes);
      columns[i].add(std::move(block), name);
    }
  }
  return array_data(std::move(columns), true);
}

}  // namespace

DataKind npz_row() {
  return {"npz",
          "FILE.npz",
          {},
          [](const std::string& path) { return path.ends_with(".npz"); },
          open_npz_rows,
          [](const DataPlace& place) { return npz_names(place.paths.front()); }};
}

}  // namespace rehearsal::exec
