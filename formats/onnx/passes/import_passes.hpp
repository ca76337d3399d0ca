#pragma once
// From a file to a graph, pass by pass. Each pass is a row of import_passes(); behind each, builds with assertions and tests hold the file
// to formats/onnx/passes/check_file.hpp or the graph to graph/check_graph.hpp. `inspect --passes` shows them.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/onnx/importer.hpp"
#include "formats/onnx/rebatch/batch_trace.hpp"

namespace rehearsal::formats {

/// What passes work on: the file's messages; then, while nodes are imported, an Importer; then the graph.
struct ImportWork {
  const std::string& path;
  const ImportOptions& options;
  ModelFile file{};
  std::vector<ExporterDamage> undone{};    ///< weights that were merged or folded in the file, and are not any more
  std::optional<BatchTrace> trace{};       ///< where another batch than the file's is wanted
  std::optional<Importer> importer{};      ///< until the graph is built
  std::optional<Declarations> declared{};  ///< what the exporter says of tensors, from then on
  ImportedModel model{};                   ///< from then on
  std::vector<ImportChange> changes{};     ///< by the pass that runs
  void note(std::string_view what, std::string name, std::string detail) {
    if (options.after_pass) changes.push_back({what, std::move(name), std::move(detail)});
  }
};

struct ImportPass {
  std::string_view name;
  std::string_view takes, leaves;  ///< what must hold before, and what holds behind it
  bool (*applies)(const ImportWork&);
  void (*run)(ImportWork&);
};

/// In the order in which they run.
[[nodiscard]] std::span<const ImportPass> import_passes();

}  // namespace rehearsal::formats
