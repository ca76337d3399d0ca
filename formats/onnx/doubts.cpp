#include "formats/onnx/doubts.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/join.hpp"
#include "formats/onnx/module_path.hpp"
#include "formats/onnx/notes.hpp"
#include "formats/onnx/positions.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::formats {
namespace {

constexpr std::size_t kMostNamed = 4;

std::string some_of(const std::vector<std::string>& names) {
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMostNamed)));
  return joined(first, ", ", [](const std::string& name) { return "'" + name + "'"; }) + (names.size() > kMostNamed ? ", ..." : "");
}

/// Layers with a stored weight and no bias.
std::vector<std::string> unbiased_layers(const onnx::GraphProto& graph) {
  std::set<std::string> stored, biased;
  for (const auto& tensor : graph.initializer()) stored.insert(tensor.name());
  for (const auto& node : graph.node()) {
    if (node.op_type() != "Add" || node.input_size() != 2) continue;
    for (const int i : {0, 1})
      if (stored.contains(node.input(1 - i))) biased.insert(node.input(i));
  }
  // a bias may stand behind a change of shape
  for (int n = graph.node_size() - 1; n >= 0; --n) {
    const auto& node = graph.node(n);
    const bool moves = node.op_type() == "Reshape" || node.op_type() == "Squeeze" || node.op_type() == "Transpose";
    if (moves && node.input_size() > 0 && node.output_size() > 0 && biased.contains(node.output(0))) biased.insert(node.input(0));
  }
  std::vector<std::string> layers;
  for (const auto& node : graph.node()) {
    const bool convolution = node.op_type() == "Conv" || node.op_type() == "ConvTranspose";
    if (!convolution && node.op_type() != "MatMul") continue;
    if (node.input_size() != 2 || node.output_size() == 0 || !stored.contains(node.input(1)) || biased.contains(node.output(0))) continue;
    layers.push_back(node.name().empty() ? node.output(0) : node.name());
  }
  return layers;
}

/// Normalizations whose gain or bias is missing.
std::vector<std::string> plain_normalizations(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Node& node : graph.nodes())
    if (graph::schema(node).name == "LayerNormalization" && node.inputs.size() < 3) names.push_back(graph[node.outputs[0]].name);
  return names;
}

/// Parameters whose names are not those of weights: the older exporter of PyTorch stores buffers just so.
std::vector<std::string> possible_buffers(const graph::Graph& graph) {
  static constexpr std::array kUsual = {"weight", "bias", "gamma",    "beta",  "embed", "token",
                                        "scale",  "proj", "original", "table", "onnx::"};
  std::vector<std::string> names;
  for (const graph::Tensor& tensor : graph.tensors()) {
    if (tensor.role != graph::TensorRole::Parameter) continue;
    const bool usual =
        std::any_of(kUsual.begin(), kUsual.end(), [&](const char* part) { return tensor.name.find(part) != std::string::npos; });
    if (!usual) names.push_back(tensor.name);
  }
  return names;
}

/// torch.export does not record which of its parameters require no gradient. Values are read of those only whose names speak of positions.
std::vector<std::string> sinusoidal_parameters(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Tensor& tensor : graph.tensors())
    if (tensor.role == graph::TensorRole::Parameter && tensor.name.find("pos") != std::string::npos &&
        is_sinusoidal_table(tensor.type, tensor.contents))
      names.push_back(tensor.name);
  return names;
}

/// Trained tensors that TorchScript's exporter computed ("onnx::Conv_93": for an operand of Conv). Those of matrix products and recurrent
/// layers are mere transpositions as a rule, those of a layer with BatchNormalization are told elsewhere (damage.hpp).
std::vector<std::string> computed_weights(const onnx::GraphProto& file, const graph::Graph& graph) {
  static constexpr std::array kReordered = {"onnx::MatMul_", "onnx::LSTM_", "onnx::GRU_", "onnx::RNN_"};
  std::set<std::string> known;
  for (const auto& node : file.node())
    if (has_made_up_weights(node)) known.insert(node.input().begin(), node.input().end());
  std::vector<std::string> names;
  for (const graph::Tensor& tensor : graph.tensors()) {
    if (tensor.role != graph::TensorRole::Parameter || !tensor.name.starts_with("onnx::") || known.contains(tensor.name)) continue;
    const bool reordered =
        std::any_of(kReordered.begin(), kReordered.end(), [&](const char* prefix) { return tensor.name.starts_with(prefix); });
    if (!reordered) names.push_back(tensor.name);
  }
  return names;
}

/// What stands for weights in an embedding, and holds zeros in one row only of the first and the last: as padding rows do, which take no
/// gradient in PyTorch.
std::vector<std::string> padded_tables(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Node& node : graph.nodes()) {
    if (graph::schema(node.op).name != "Gather" || node.attributes.has("padding") || node.attributes.integer("axis", 0) != 0) continue;
    const graph::Tensor& table = graph[node.inputs[0]];
    if (table.role != graph::TensorRole::Parameter || std::find(names.begin(), names.end(), table.name) != names.end()) continue;
    if (has_padding_row(table.type, table.contents)) names.push_back(table.name);
  }
  return names;
}

/// Results that weights reach, of nodes of which `is_meant`: what a gradient flows through.
std::vector<std::string> reached_by_weights(const onnx::GraphProto& file, const graph::Graph& graph,
                                            bool (*is_meant)(const onnx::NodeProto&)) {
  std::set<std::string, std::less<>> reached;
  for (const graph::Tensor& tensor : graph.tensors())
    if (tensor.role == graph::TensorRole::Parameter) reached.insert(tensor.name);
  std::vector<std::string> names;
  for (const auto& node : file.node()) {
    if (std::none_of(node.input().begin(), node.input().end(), [&](const std::string& name) { return reached.contains(name); })) continue;
    for (const std::string& name : node.output()) {
      const auto t = graph.find(name);
      const bool computed = t == graph::TensorId::None || is_float(graph[t].type.dtype);
      if (computed && !name.empty()) reached.insert(name);
      if (computed && is_meant(node)) names.push_back(name);
    }
  }
  return names;
}

bool by_tf2onnx(const ModelFile& file, const Declarations&) { return file.model.producer_name() == "tf2onnx"; }
bool by_torchscript(const ModelFile& file, const Declarations& declarations) {
  return file.model.producer_name() == "pytorch" && declarations.parameters().empty();
}
bool by_anyone(const ModelFile&, const Declarations&) { return true; }

using DoubtsNames = std::vector<std::string>;
using File = onnx::GraphProto;

struct Doubt {
  bool (*concerns)(const ModelFile&, const Declarations&);
  DoubtsNames (*find)(const File&, const graph::Graph&);
  std::string_view what, sentence;  ///< "3 WHAT (a, b, c) SENTENCE"
};

const Doubt kDoubtsRows[] = {
    {by_tf2onnx, [](const File& file, const graph::Graph&) { return unbiased_layers(file); }, "layers",
     "have no bias; tf2onnx leaves out biases that are 0, and what is left out is not trained: if the model has them, give them other "
     "values before the export"},
    {by_tf2onnx, [](const File&, const graph::Graph& graph) { return plain_normalizations(graph); }, "layer normalizations",
     "have no gain or no bias; tf2onnx leaves out gains that are 1 and biases that are 0, and what is left out is not trained: if the "
     "model has them, give them other values before the export"},
    {by_anyone, [](const File&, const graph::Graph& graph) { return sinusoidal_parameters(graph); }, "weights",
     "hold sines and cosines of positions; they are trained, as the file says of them, but most models keep such tables: then use "
     "--freeze"},
    {by_torchscript, [](const File&, const graph::Graph& graph) { return possible_buffers(graph); }, "stored tensors",
     "are trained, though they may be buffers of the model, which this exporter does not tell apart; if they are, use --freeze, or "
     "export with dynamo=True, optimize=False"},
    {by_torchscript, computed_weights, "trained tensors",
     "were computed by the exporter when it folded constants; if that was more than picking or transposing values (weight "
     "normalization, say), training them is not training the model: export with do_constant_folding=False"},
    {by_torchscript, [](const File&, const graph::Graph& graph) { return padded_tables(graph); }, "tables",
     "have one row of zeros, as embeddings with padding_idx have; this exporter does not record it, and the row is trained here: export "
     "with dynamo=True, optimize=False, if the model has a padding_idx"},
    // what torch.export notes of the places where a model changes its gradients, without saying how
    {by_anyone, [](const File& file, const graph::Graph& graph) { return reached_by_weights(file, graph, stands_in_block); }, "results",
     "were computed in a block of torch.no_grad() or torch.autocast, which the file does not tell apart; gradients flow through them: "
     "where the model has no_grad, use .detach() on the block's results and export again"},
    {by_anyone, [](const File& file, const graph::Graph& graph) { return reached_by_weights(file, graph, stands_in_own_function); },
     "results",
     "were computed by a torch.autograd.Function of the model, whose backward is not in the file; the gradient is that of what it "
     "computes: write x + (f(x) - x).detach() for a straight-through estimator and export again"},
};

}  // namespace

std::vector<std::string> doubts_about(const ModelFile& file, const Declarations& declarations, const graph::Graph& graph) {
  std::vector<std::string> doubts;
  for (const Doubt& doubt : kDoubtsRows) {
    if (!doubt.concerns(file, declarations)) continue;
    const DoubtsNames names = doubt.find(file.model.graph(), graph);
    if (names.empty()) continue;
    doubts.push_back(std::to_string(names.size()) + ' ' + std::string(doubt.what) + " (" + some_of(names) + ") " +
                     std::string(doubt.sentence));
  }
  return doubts;
}

}  // namespace rehearsal::formats
