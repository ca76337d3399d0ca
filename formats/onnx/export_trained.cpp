#include "formats/onnx/export_trained.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "formats/onnx/damage.hpp"
#include "formats/onnx/folded.hpp"
#include "formats/onnx/model_export.hpp"
#include "formats/onnx/model_file.hpp"
#include "formats/onnx/usage.hpp"

namespace rehearsal::formats {
namespace {

/// Below this a tensor stays in the model file: readers want shapes and axes there.
constexpr std::size_t kSmallestExternal = 1024;

class TrainedFile {
 public:
  TrainedFile(const std::string& source, const std::string& path, const TrainedValues& values)
      : file_(read_model(source)), path_(path), values_(values) {
    (void)separate_merged(file_.model);  // as the importer did
    (void)unfold(file_);
  }

  void write() && {
    auto& graph = *file_.model.mutable_graph();
    external_ = stored_bytes(graph) > static_cast<double>(kLargestInlineWeights);
    for (auto& tensor : *graph.mutable_initializer()) fill(tensor);
    for (const auto& [name, value] : values_)
      if (!placed_.contains(name)) add(name, value, graph);
    for (auto& node : *graph.mutable_node()) restore(node);
    for (auto& function : *file_.model.mutable_functions())
      for (auto& node : *function.mutable_node()) restore(node);
    forget_left_out();
    put_into_inference_form(graph);
    std::string bytes;
    if (!file_.model.SerializeToString(&bytes)) throw Refusal(path_ + ": the model is too large for one ONNX file");
    if (!data_.empty()) write_file_atomically(path_ + ".data", data_);
    write_file_atomically(path_, bytes);
  }

 private:
  [[nodiscard]] double stored_bytes(const onnx::GraphProto& graph) const {
    double bytes = 0;
    for (const auto& tensor : graph.initializer()) {
      const auto type = dtype_from_onnx(tensor.data_type());
      double elements = 1;
      for (const auto d : tensor.dims()) elements *= static_cast<double>(d);
      bytes += elements * static_cast<double>(type ? size_of(*type) : 1);
    }
    for (const auto& [name, value] : values_) bytes += static_cast<double>(value.bytes.size());
    return bytes;
  }

  /// An initializer of the main graph: trained, or as it was.
  void fill(onnx::TensorProto& tensor) {
    const auto found = values_.find(tensor.name());
    if (found == values_.end()) return restore(tensor, tensor.name());
    placed_.insert(tensor.name());
    const graph::Shape shape(tensor.dims().begin(), tensor.dims().end());
    if (shape != found->second.type.shape)
      throw BadInput("tensor '" + tensor.name() + "'", "has shape " + graph::to_text(shape) + " in the file, and " +
                                                           graph::to_text(found->second.type.shape) + " after training");
    store(tensor, converted(found->second, dtype_of(tensor.data_type(), tensor.name())));
  }

  static std::string converted(const TrainedValue& value, DType to) {
    const graph::Contents contents{
        value.type.dtype, graph::InlineBytes{std::make_shared<const std::vector<std::byte>>(value.bytes.begin(), value.bytes.end())}};
    std::string bytes(static_cast<std::size_t>(graph::element_count(value.type.shape)) * size_of(to), '\0');
    graph::read_into(contents, value.type.shape, to, {}, bytes.data());
    return bytes;
  }

  /// Payloads that reading left in the file, or that lie beside it.
  void restore(onnx::TensorProto& tensor, const std::string& name) {
    if (dtype_from_onnx(tensor.data_type()) == DType::String) return;
    const bool here = !tensor.has_payload_bytes() && tensor.data_location() != onnx::TensorProto::EXTERNAL;
    if (here) return;
    const StoredTensor stored = stored_tensor(file_, tensor, name);
    if (!stored.missing.empty()) throw BadInput(stored.missing, "this file with the values of tensor '" + name + "' does not exist");
    std::string bytes(static_cast<std::size_t>(graph::size_of(stored.type).value()), '\0');
    graph::read_into(stored.contents, stored.type.shape, stored.type.dtype, {}, bytes.data());
    store(tensor, std::move(bytes));
  }

  void restore(onnx::NodeProto& node) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) restore(*attribute.mutable_t(), node.name());
      for (auto& tensor : *attribute.mutable_tensors()) restore(tensor, node.name());
      if (attribute.has_g()) restore(*attribute.mutable_g());
      for (auto& graph : *attribute.mutable_graphs()) restore(graph);
    }
  }

  void restore(onnx::GraphProto& graph) {
    for (auto& tensor : *graph.mutable_initializer()) restore(tensor, tensor.name());
    for (auto& node : *graph.mutable_node()) restore(node);
  }

  void store(onnx::TensorProto& tensor, std::string bytes) {
    onnx::TensorProto fresh;
    fresh.set_name(tensor.name());
    fresh.set_data_type(tensor.data_type());
    *fresh.mutable_dims() = tensor.dims();
    if (tensor.has_doc_string()) fresh.set_doc_string(tensor.doc_string());
    tensor = std::move(fresh);
    if (!external_ || bytes.size() < kSmallestExternal) return tensor.set_raw_data(std::move(bytes));
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    const std::pair<const char*, std::string> entries[] = {{"location", std::filesystem::path(path_).filename().string() + ".data"},
                                                           {"offset", std::to_string(data_.size())},
                                                           {"length", std::to_string(bytes.size())}};
    for (const auto& [key, value] : entries) {
      auto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    data_ += bytes;
  }

  /// A trained tensor that is no initializer: the node that made it, or the input that stood for it, goes.
  void add(const std::string& name, const TrainedValue& value, onnx::GraphProto& graph) {
    DType type = value.type.dtype;
    if (!take_node(name, graph) && !take_input(name, graph, type) && !is_declared(name, graph))
      throw Refusal("trained tensor '" + name + "' has no place of its own in the main graph of " + file_.path);
    auto& tensor = *graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(row(type).onnx_code);
    for (const auto d : value.type.shape) tensor.add_dims(d);
    store(tensor, converted(value, type));
  }

  static bool take_node(const std::string& name, onnx::GraphProto& graph) {
    auto& nodes = *graph.mutable_node();
    const auto makes = [&](const onnx::NodeProto& node) { return node.output_size() == 1 && node.output(0) == name; };
    const auto found = std::find_if(nodes.begin(), nodes.end(), makes);
    if (found == nodes.end()) return false;
    nodes.erase(found);
    return true;
  }

  bool take_input(const std::string& name, onnx::GraphProto& graph, DType& type) {
    auto& inputs = *graph.mutable_input();
    const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const auto& info) { return info.name() == name; });
    if (found == inputs.end()) return false;
    type = dtype_of(found->type().tensor_type().elem_type(), name);
    if (file_.model.ir_version() >= 4) inputs.erase(found);  // before, an initializer had to be an input too
    return true;
  }

  static bool is_declared(const std::string& name, const onnx::GraphProto& graph) {
    return std::any_of(graph.value_info().begin(), graph.value_info().end(), [&](const auto& info) { return info.name() == name; });
  }

  /// What is trained is there to be used: normalizations take the running statistics, dropout keeps everything. Reading the file for
  /// training undoes it (model_import.hpp).
  static void put_into_inference_form(onnx::GraphProto& graph) {
    std::set<std::string> read;
    for (const auto& node : graph.node())
      for (const std::string& name : names_read(node)) read.insert(name);
    std::set<std::string> updated;  // running statistics that would be results
    for (auto& node : *graph.mutable_node()) {
      const bool normalization = node.op_type() == "BatchNormalization";
      if (!normalization && node.op_type() != "Dropout") continue;
      const auto& results = node.output();
      if (std::any_of(results.begin() + std::min(1, results.size()), results.end(), [&](const auto& r) { return read.contains(r); }))
        continue;
      for (auto& attribute : *node.mutable_attribute())
        if (normalization && attribute.name() == "training_mode") attribute.set_i(0);
      if (!normalization) {
        if (node.input_size() > 2) node.set_input(2, "");
        continue;
      }
      for (int i = 1; i < node.output_size(); ++i) updated.insert(node.output(i));
      while (node.output_size() > 1) node.mutable_output()->RemoveLast();
    }
    auto& outputs = *graph.mutable_output();
    outputs.erase(std::remove_if(outputs.begin(), outputs.end(), [&](const auto& o) { return updated.contains(o.name()); }), outputs.end());
  }

  /// The metadata by which our own files say which weights they lack.
  void forget_left_out() {
    auto& entries = *file_.model.mutable_metadata_props();
    entries.erase(std::remove_if(entries.begin(), entries.end(), [](const auto& entry) { return entry.key() == "weights"; }),
                  entries.end());
  }

  ModelFile file_;
  const std::string& path_;
  const TrainedValues& values_;
  std::set<std::string> placed_;
  bool external_ = false;
  std::string data_;
};

}  // namespace

void export_trained(const std::string& source, const std::string& path, const TrainedValues& values) {
  TrainedFile(source, path, values).write();
}

}  // namespace rehearsal::formats
