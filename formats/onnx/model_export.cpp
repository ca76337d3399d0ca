#include "formats/onnx/model_export.hpp"

#include <algorithm>
#include <filesystem>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "formats/onnx/node_export.hpp"
#include "graph/training.hpp"

namespace rehearsal::formats {
namespace {

using graph::TensorId;
using graph::TensorRole;

constexpr const char* kExportKindKey = "pkg.torch.export.graph_signature.InputSpec.kind";

bool is_stored(const graph::Tensor& tensor) {
  return tensor.producer == graph::NodeId::None &&
         (graph::is_weight(tensor.role) || tensor.role == TensorRole::State || tensor.role == TensorRole::Constant);
}

void fill_value_info(onnx::ValueInfoProto& info, const graph::Tensor& tensor, const graph::Graph* other_batch) {
  info.set_name(tensor.name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(row(tensor.type.dtype).onnx_code);
  type.mutable_shape();
  const auto other = other_batch == nullptr ? TensorId::None : other_batch->find(tensor.name);
  for (std::size_t d = 0; d < tensor.type.shape.size(); ++d) {
    auto& dim = *type.mutable_shape()->add_dim();
    if (other != TensorId::None && (*other_batch)[other].type.shape[d] != tensor.type.shape[d])
      dim.set_dim_param("batch");
    else
      dim.set_dim_value(tensor.type.shape[d]);
  }
}

void set_entry(onnx::StringStringEntryProto& entry, const std::string& key, const std::string& value) {
  entry.set_key(key);
  entry.set_value(value);
}

void declare_kind(onnx::ValueInfoProto& info, TensorRole role) {
  set_entry(*info.add_metadata_props(), kExportKindKey, graph::is_weight(role) ? "PARAMETER" : "BUFFER");
}

/// The newest format that readers of this opset know.
std::int64_t ir_version_of(std::int64_t opset) { return opset <= 18 ? 8 : opset <= 20 ? 9 : opset <= 22 ? 10 : 11; }

class Exporter {
 public:
  Exporter(const graph::Graph& graph, const std::string& path, const ExportOptions& options)
      : file_{graph, graph.consumers(), {}, 18, options.other_batch, 0, options.inference},
        path_(path),
        options_(options),
        external_(options.weights && stored_bytes(graph) > kLargestInlineWeights) {}

  void run() {
    auto& graph = *file_.model.mutable_graph();
    graph.set_name(std::filesystem::path(path_).stem().string());
    for (const TensorId t : file_.graph.inputs()) fill_value_info(*graph.add_input(), file_.graph[t], options_.other_batch);
    for (std::size_t i = 0; i < file_.graph.tensors().size(); ++i) {
      if (is_stored(file_.graph.tensors()[i]) && is_read(static_cast<TensorId>(i))) add_stored(static_cast<TensorId>(i));
    }
    for (const graph::Node& node : file_.graph.nodes()) add_node(node);
    for (const TensorId t : file_.graph.outputs()) fill_value_info(*graph.add_output(), file_.graph[t], options_.other_batch);
    if (!weights_.empty()) set_entry(*file_.model.add_metadata_props(), "weights", weights_);
    finish();
  }

 private:
  static double stored_bytes(const graph::Graph& graph) {
    double bytes = 0;
    for (const graph::Tensor& tensor : graph.tensors()) bytes += is_stored(tensor) ? graph::size_of(tensor.type).value() : 0;
    return bytes;
  }

  bool is_read(TensorId t) const {
    const auto& outputs = file_.graph.outputs();
    return !file_.consumers[graph::index(t)].empty() || std::find(outputs.begin(), outputs.end(), t) != outputs.end();
  }

  void add_node(const graph::Node& node) {
    if (node.phase == graph::Phase::Backward) return;
    const ExportRow* row = find_export_row(graph::schema(node).name);
    NodeExport view(file_, node);
    if (!row) {
      if (node.phase == graph::Phase::Update) return;
      view.refuse("this operator has no ONNX form");
    }
    row->write(view);
  }

  /// Small constants always have their values: shapes, masks and scales make the graph what it is.
  bool keeps_values(const graph::Tensor& tensor) const {
    return tensor.contents.known() && (options_.weights || std::holds_alternative<graph::InlineBytes>(tensor.contents.source)) &&
           (options_.weights || tensor.role == TensorRole::Constant);
  }

  void add_stored(TensorId t) {
    const graph::Tensor& tensor = file_.graph[t];
    const bool known = keeps_values(tensor) || (options_.weights && options_.values && options_.values(t));
    if (known) return add_initializer(t);
    const graph::Contents::Source& source = tensor.contents.source;
    if (const auto* fill = std::get_if<graph::Fill>(&source)) return add_fill(tensor, fill->value);
    if (const auto* normal = std::get_if<graph::RandomNormal>(&source))
      return add_random(tensor, "RandomNormal", {"mean", normal->mean}, {"scale", normal->deviation});
    if (const auto* uniform = std::get_if<graph::RandomUniform>(&source))
      return add_random(tensor, "RandomUniform", {"low", uniform->low}, {"high", uniform->high});
    auto& info = *file_.model.mutable_graph()->add_input();
    fill_value_info(info, tensor, nullptr);
    declare_kind(info, tensor.role);
    if (tensor.role != TensorRole::Constant) weights_ += (weights_.empty() ? "" : "\n") + tensor.name;
  }

  onnx::TensorProto& named_initializer(const std::string& name, const graph::TensorType& type) {
    auto& proto = *file_.model.mutable_graph()->add_initializer();
    proto.set_name(name);
    proto.set_data_type(row(type.dtype).onnx_code);
    for (const std::int64_t d : type.shape) proto.add_dims(d);
    return proto;
  }

  void add_initializer(TensorId t) {
    const graph::Tensor& tensor = file_.graph[t];
    auto& proto = named_initializer(tensor.name, tensor.type);
    std::string bytes(static_cast<std::size_t>(graph::size_of(tensor.type).value()), '\0');
    const std::byte* values = options_.weights && options_.values ? options_.values(t) : nullptr;
    if (values)
      std::copy_n(reinterpret_cast<const char*>(values), bytes.size(), bytes.begin());
    else
      graph::read_into(tensor.contents, tensor.type.shape, tensor.type.dtype, {options_.seed, graph::initial_stream(tensor.name)},
                       bytes.data());
    // a float constant would be taken for a parameter otherwise
    if (tensor.role == TensorRole::Constant && is_float(tensor.type.dtype) && !tensor.type.shape.empty()) {
      auto& info = *file_.model.mutable_graph()->add_value_info();
      fill_value_info(info, tensor, nullptr);
      declare_kind(info, tensor.role);
    }
    if (!external_ || bytes.size() < 1024) return proto.set_raw_data(std::move(bytes));
    proto.set_data_location(onnx::TensorProto::EXTERNAL);
    set_entry(*proto.add_external_data(), "location", std::filesystem::path(path_).filename().string() + ".data");
    set_entry(*proto.add_external_data(), "offset", std::to_string(data_.size()));
    set_entry(*proto.add_external_data(), "length", std::to_string(bytes.size()));
    data_ += bytes;
  }

  void add_fill(const graph::Tensor& tensor, double value) {
    const std::string shape_name = tensor.name + "__SHAPE";
    const graph::Contents shape = graph::contents_of(graph::Value::vector(tensor.type.shape));
    const auto& bytes = *std::get<graph::InlineBytes>(shape.source).data;
    named_initializer(shape_name, {DType::I64, {static_cast<std::int64_t>(tensor.type.shape.size())}})
        .set_raw_data(bytes.data(), bytes.size());
    auto& node = generator(tensor, "ConstantOfShape");
    node.add_input(shape_name);
    auto& attribute = *node.add_attribute();
    attribute.set_name("value");
    attribute.set_type(onnx::AttributeProto::TENSOR);
    attribute.mutable_t()->set_data_type(row(tensor.type.dtype).onnx_code);
    attribute.mutable_t()->add_dims(1);
    const graph::Contents one = graph::contents_of(
        graph::Value{{tensor.type.dtype, {1}},
                     is_float(tensor.type.dtype) ? std::vector<std::int64_t>{} : std::vector{static_cast<std::int64_t>(value)},
                     is_float(tensor.type.dtype) ? std::vector{value} : std::vector<double>{}});
    const auto& element = *std::get<graph::InlineBytes>(one.source).data;
    attribute.mutable_t()->set_raw_data(element.data(), element.size());
  }

  struct Moment {
    const char* key;
    double value;
  };

  void add_random(const graph::Tensor& tensor, const char* op, Moment first, Moment second) {
    auto& node = generator(tensor, op);
    for (const Moment& moment : {first, second}) {
      auto& attribute = *node.add_attribute();
      attribute.set_name(moment.key);
      attribute.set_type(onnx::AttributeProto::FLOAT);
      attribute.set_f(static_cast<float>(moment.value));
    }
    auto& type = *node.add_attribute();
    type.set_name("dtype");
    type.set_type(onnx::AttributeProto::INT);
    type.set_i(row(tensor.type.dtype).onnx_code);
    auto& shape = *node.add_attribute();
    shape.set_name("shape");
    shape.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t d : tensor.type.shape) shape.add_ints(d);
  }

  onnx::NodeProto& generator(const graph::Tensor& tensor, const char* op) {
    auto& node = *file_.model.mutable_graph()->add_node();
    node.set_op_type(op);
    node.set_name(tensor.name + "/" + op);
    node.add_output(tensor.name);
    return node;
  }

  void finish() {
    onnx::ModelProto& model = file_.model;
    model.set_ir_version(ir_version_of(file_.opset));
    model.set_producer_name("rehearsal");
    model.set_producer_version(options_.producer_version);
    auto& opset = *model.add_opset_import();
    opset.set_domain("");
    opset.set_version(file_.opset);
    std::string bytes;
    if (!model.SerializeToString(&bytes)) throw Refusal(path_ + ": the model is too large for one ONNX file");
    if (!data_.empty()) write_file_atomically(path_ + ".data", data_);
    write_file_atomically(path_, bytes);
  }

  ExportFile file_;
  const std::string& path_;
  const ExportOptions& options_;
  bool external_;
  std::string data_, weights_;
};

}  // namespace

void export_onnx(const graph::Graph& model, const std::string& path, const ExportOptions& options) { Exporter(model, path, options).run(); }

}  // namespace rehearsal::formats
