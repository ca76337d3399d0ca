#pragma once
// From the messages of a file to a graph: the passes of import_passes.hpp that go over its sizes, inputs, nodes and outputs. NodeImport is
// its face to the import rows.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "formats/onnx/import_watcher.hpp"
#include "formats/onnx/model_file.hpp"
#include "formats/onnx/model_import.hpp"
#include "formats/onnx/node_import.hpp"
#include "formats/onnx/stored.hpp"
#include "formats/onnx/symbols.hpp"
#include "formats/onnx/usage.hpp"

namespace rehearsal::formats {

using OpsetVersions = std::map<std::string, std::int64_t>;

class Importer {
 public:
  /// `watcher`: of an import with another batch than the file's (rebatch/batch_trace.hpp); may be nullptr.
  Importer(const ModelFile& file, const ImportOptions& options, ImportWatcher* watcher = nullptr);
  /// The batch that the file is written for: the first dimension of the first data input that has more than one row. nullopt when the file
  /// leaves the first dimension of an input open.
  [[nodiscard]] std::optional<std::int64_t> written_batch();

  // In this order. Each throws BadInput.
  void bind_sizes();
  void add_inputs();
  void import_nodes();
  void add_outputs();
  /// The graph without what no output needs, and what the file says about itself.
  [[nodiscard]] ImportedModel finish() &&;

  [[nodiscard]] const graph::Graph& so_far() const { return builder_.so_far(); }
  /// What was done since the last call; only where ImportOptions::after_pass is given.
  [[nodiscard]] std::vector<ImportChange> take_changes() { return std::exchange(changes_, {}); }
  [[nodiscard]] const Declarations& declarations() const { return declarations_; }

 private:
  friend class NodeImport;

  /// The names that nodes of one graph, body or function call see.
  struct Scope {
    std::unordered_map<std::string, Meaning> meanings;
    std::unordered_map<std::string, const onnx::TensorProto*> initializers;
    UsageByName usage;
    Scope* outer = nullptr;
    std::string prefix;  ///< of the names that its tensors get in the graph; empty for the main graph
    const OpsetVersions* opsets = nullptr;
    int depth = 0;
  };

  void prepare();
  void bind_first_dimensions();
  [[noreturn]] void refuse_unbound(const std::set<std::string>& unbound, const std::set<std::string>& first) const;
  void assume(const std::set<std::string>& unbound, const std::set<std::string>& first);
  [[nodiscard]] std::vector<std::string> dimension_texts(const onnx::ValueInfoProto& info) const;
  [[nodiscard]] graph::TensorType bound_type(const onnx::ValueInfoProto& info) const;
  [[nodiscard]] bool has_written_batch(const onnx::ValueInfoProto& info) const;
  [[nodiscard]] bool is_data_input(const onnx::ValueInfoProto& info) const;
  void add_given(const std::string& name, const GivenInput& given);
  graph::TensorId output_tensor(graph::TensorId t, const std::string& name);
  void record_declared();

  void run_nodes(const NodeList& nodes, Scope& scope);
  void run_node(const onnx::NodeProto& node, Scope& scope);
  void import_row(const onnx::NodeProto& node, Scope& scope);
  void call(const onnx::NodeProto& node, const onnx::FunctionProto& function, Scope& scope);
  std::vector<Meaning> run_graph(const onnx::GraphProto& body, Scope& scope, const std::vector<Meaning>& arguments, BodyMemory& memory);
  static void remember(const onnx::GraphProto& body, const Scope& inner, BodyMemory& memory);
  void skip(const onnx::NodeProto& node, Scope& scope, const std::string& reason);
  void bind_result(const std::string& name, Meaning meaning, std::size_t first_new, Scope& scope);
  [[nodiscard]] bool reads_unknown(const onnx::NodeProto& node, Scope& scope);

  [[nodiscard]] Meaning look_up(const std::string& name, Scope& scope);
  [[nodiscard]] Meaning dangling(const std::string& name, Scope& scope);
  graph::TensorId add_initializer(const std::string& name, const onnx::TensorProto& tensor, const Scope& scope);
  graph::TensorId add_stored(const std::string& name, const StoredTensor& stored, graph::TensorRole role);
  [[nodiscard]] FileTensor candidate(const std::string& name, const graph::TensorType& type, const Scope& scope) const;
  [[nodiscard]] std::int64_t version_of(const std::string& domain, const Scope& scope) const;

  [[nodiscard]] bool is_output(const std::string& name) const;
  graph::TensorId copy_of_stored(graph::TensorId t, const std::string& name, const FileTensor& candidate);
  void warn(const std::string& sentence);
  void note(std::string_view what, std::string name, std::string detail = {});
  void note_node(const onnx::NodeProto& node, const Scope& scope, std::size_t first_node, std::size_t first_tensor);
  void warn_of_missing();

  const ModelFile& file_;
  const ImportOptions& options_;
  ImportWatcher* watcher_;
  Declarations declarations_;
  NodeList nodes_;                  ///< of the main graph, in topological order
  bool stores_all_listed_ = false;  ///< initializers and inputs have every parameter that the exporter lists
  FunctionsByName functions_;
  OpsetVersions opsets_;
  std::map<const onnx::FunctionProto*, OpsetVersions> function_opsets_;
  Bindings bindings_;
  std::set<std::string> produced_;  ///< by nodes of the main graph
  graph::GraphBuilder builder_;
  std::unordered_set<graph::TensorId> running_;              ///< storage of running statistics that a node updates
  std::unordered_set<graph::TensorId> noise_;                ///< placeholders of fresh random numbers
  std::map<std::string, std::vector<std::string>> missing_;  ///< tensors by external file that is not there
  Scope main_;
  Scope* scope_ = nullptr;  ///< of the node being imported
  ImportedModel result_;
  std::vector<ImportChange> changes_;
  std::size_t calls_ = 0, inlined_ = 0, streams_ = 0;
};

}  // namespace rehearsal::formats
