#include "formats/onnx/damage.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "formats/onnx/folded.hpp"
#include "formats/onnx/module_path.hpp"
#include "formats/onnx/quoted_list.hpp"
#include "graph/builder.hpp"

namespace rehearsal::formats {
namespace {

constexpr std::string_view kScopesKey = "pkg.torch.onnx.name_scopes";

/// The entries of a list that a node has under `key`.
std::vector<std::string> entries_under(const onnx::NodeProto& node, std::string_view key) {
  for (const auto& entry : node.metadata_props())
    if (entry.key() == key) return quoted_entries(entry.value());
  return {};
}

std::string parent(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

/// Tensors that hold weights under names that the exporter made up, by the module that reads them.
std::map<std::string, std::vector<std::string>> renamed_weights(const onnx::GraphProto& graph, const std::set<std::string>& listed) {
  std::set<std::string> stored;
  for (const auto& tensor : graph.initializer()) {
    const auto type = dtype_from_onnx(tensor.data_type());
    if (type && is_float(*type) && tensor.dims_size() > 0 && !listed.contains(tensor.name())) stored.insert(tensor.name());
  }
  for (const auto& input : graph.input()) stored.insert(input.name());
  std::map<std::string, std::vector<std::string>> renamed;
  for (const auto& node : graph.node()) {
    const std::string& op = node.op_type();
    const bool holds_weights = op == "MatMul" || op == "Gemm" || op == "Conv" || op == "ConvTranspose" || op == "LSTM" || op == "GRU";
    for (int i = 1; holds_weights && i < node.input_size(); ++i) {
      if (stored.contains(node.input(i)) && !listed.contains(node.input(i))) renamed[module_path(node)].push_back(node.input(i));
    }
  }
  return renamed;
}

/// What nodes read, by their module.
struct ReadBy {
  std::map<std::string, std::vector<std::string>> made_up;  ///< tensors that hold weights under names of the exporter
  std::map<std::string, std::vector<std::string>> listed;   ///< parameters that the signature lists
  std::map<std::string, std::vector<std::string>> folded;   ///< stored tensors that a parameter was folded into
  std::map<std::string, Origin> origins;                    ///< of those tensors
  std::set<std::string> packed;                             ///< tensors that operators with packed weights read
  UsageByName usage;
  bool optimized = false;
};

/// The tensor is the parameter in another form, or holds it beside others, and is trained.
bool is_another_form(const std::string& tensor, const ReadBy& read, const Declarations& declarations) {
  const Origin& origin = read.origins.at(tensor);
  const auto usage = read.usage.find(tensor);
  const bool trained = declarations.kind(tensor) == DeclaredKind::Parameter ||
                       (usage != read.usage.end() && (usage->second & (kWeightUse | kMatrixUse)) != 0);
  return trained && origin.moved_only && (origin.parameters.size() == 1 || read.packed.contains(tensor));
}

/// Nothing but zeros came of it: the state of a recurrent layer before its first step times a matrix, which has no gradient.
bool is_zero(const ModelFile& file, const onnx::TensorProto& tensor) {
  const StoredTensor stored = stored_tensor(file, tensor, tensor.name());
  if (!stored.contents.known() || !stored.missing.empty() || graph::element_count(stored.type.shape) > graph::kLargestFolded) return false;
  const auto values = graph::read_reals(stored.contents, stored.type.shape, 0, 0);
  return std::all_of(values.begin(), values.end(), [](double x) { return x == 0; });
}

/// Parameters that the exporter computed stored tensors with.
std::map<std::string, ExporterDamage> used_up(const ModelFile& file, const ReadBy& read, const Declarations& declarations) {
  std::map<std::string, const onnx::TensorProto*> stored;
  if (!read.origins.empty()) {
    for (const auto& tensor : file.model.graph().initializer()) stored[tensor.name()] = &tensor;
  }
  std::map<std::string, ExporterDamage> damage;
  for (const auto& [tensor, origin] : read.origins) {
    if (!read.usage.contains(tensor) || is_another_form(tensor, read, declarations)) continue;
    if (!origin.moved_only && is_zero(file, *stored.at(tensor))) continue;
    for (const std::string& name : origin.parameters) {
      std::string others;
      for (const std::string& other : origin.parameters) {
        if (other != name) others += (others.empty() ? " together with '" : "', '") + other;
      }
      damage.emplace(name, ExporterDamage{name, "computed",
                                          "the exporter computed '" + tensor + "' with it" + (others.empty() ? "" : others + "'") +
                                              " once and for all",
                                          false, tensor});
    }
  }
  return damage;
}

ExporterDamage lost(const std::string& name, const Declarations& declarations, const ReadBy& read) {
  const auto& buffers = declarations.buffers();
  const std::string module = parent(name);
  const auto& renamed = read.made_up;
  if (buffers.contains(module + ".running_mean"))
    return {name, "folded", "BatchNormalization '" + module + "' was folded into the layer before it; it cannot be trained", false};
  if (const auto into = read.folded.find(name); into != read.folded.end()) {
    for (const std::string& tensor : into->second) {
      if (is_another_form(tensor, read, declarations))
        return {name, "renamed", "the file has it as '" + tensor + "', transposed or packed", false, tensor};
    }
  }
  const auto found = renamed.find(module);
  if (found != renamed.end() && !is_bias_name(name.substr(module.empty() ? 0 : module.size() + 1)))
    return {name, "renamed", "the file has it as '" + found->second.front() + "', transposed or packed", false, found->second.front()};
  if (const auto shared = read.listed.find(module); shared != read.listed.end()) {
    for (const std::string& other : shared->second) {
      if (parent(other) != module && is_bias_name(other.substr(other.rfind('.') + 1)) == is_bias_name(name.substr(name.rfind('.') + 1)))
        return {name, "tied", "it shares its values with '" + other + "'", true, other};
    }
  }
  if (!read.optimized) return {name, "tied", "no node reads it: it is not used, or another name of a shared weight", true};
  return {name, "missing", "no node reads it: it was folded into another tensor, or left out because it was 0", false};
}

/// Normalizations without weights leave only their statistics in the exporter's list when they are folded.
void add_plain_folded(const onnx::GraphProto& graph, const Declarations& declarations, std::vector<ExporterDamage>& damage) {
  static constexpr std::string_view kVariance = ".running_var";
  std::set<std::string> modules, read;
  for (const auto& node : graph.node()) {
    const std::string& op = node.op_type();
    const bool product = op == "Conv" || op == "ConvTranspose" || op == "Gemm" || op == "MatMul";
    if (!product) modules.insert(module_path(node));  // the layer that took the normalization in bears its name
    read.insert(node.input().begin(), node.input().end());
  }
  for (const std::string& name : declarations.buffers()) {
    if (!name.ends_with(kVariance) || read.contains(name)) continue;
    const std::string module = parent(name);
    if (modules.contains(module) || declarations.parameters().contains(module + ".weight")) continue;
    damage.push_back(
        {module, "folded", "BatchNormalization without weights, which was folded into the layer before it, or is not used", false});
  }
}

/// TorchScript's names for weights that are products of others.
void add_anonymous(const onnx::GraphProto& graph, std::vector<ExporterDamage>& damage) {
  const bool normalized =
      std::any_of(graph.node().begin(), graph.node().end(), [](const onnx::NodeProto& n) { return n.op_type() == "BatchNormalization"; });
  for (const auto& node : graph.node()) {
    const bool convolution = node.op_type() == "Conv" || node.op_type() == "ConvTranspose";
    if (normalized || !convolution || node.input_size() < 3 || !has_made_up_weights(node)) continue;
    damage.push_back({node.input(1), "folded", "weights of " + described(node) + " with a BatchNormalization folded into them", false});
  }
}

}  // namespace

std::string module_path(const onnx::NodeProto& node) {
  // "['', 'model', 'model.layers.0', 'linear_3']": the module is the last but one
  const std::vector<std::string> scopes = entries_under(node, kScopesKey);
  return scopes.size() < 2 ? "" : scopes[scopes.size() - 2];
}

bool is_bias_operand(const onnx::NodeProto& node, int i) {
  const std::string& op = node.op_type();
  return op == "Add" || op == "Sub" || (i == 2 && op != "LSTM" && op != "GRU" && op != "RNN") ||
         (i == 3 && (op == "LSTM" || op == "GRU" || op == "RNN"));
}

bool is_bias_name(const std::string& leaf) { return leaf.find("bias") != std::string::npos || leaf == "beta" || leaf == "b"; }

bool has_made_up_weights(const onnx::NodeProto& node) {
  const auto made_up = [&](int i) { return i < node.input_size() && node.input(i).starts_with("onnx::"); };
  return made_up(1) && made_up(2);
}

std::vector<ExporterDamage> find_damage(const ModelFile& file, const Declarations& declarations) {
  const auto& graph = file.model.graph();
  std::set<std::string> read;
  for (const auto& node : graph.node()) {
    for (const std::string& name : names_read(node)) read.insert(name);
  }
  for (const auto& output : graph.output()) read.insert(output.name());
  std::vector<ExporterDamage> damage;
  const auto& listed = declarations.parameters();
  ReadBy by;
  if (!listed.empty()) by.made_up = renamed_weights(graph, listed);
  by.optimized = was_optimized(graph);
  by.origins = folded_tensors(graph, declarations);
  if (!by.origins.empty()) by.usage = usage_of(in_topological_order(graph.node(), "the graph"), {});
  for (const auto& [tensor, origin] : by.origins) {
    for (const std::string& name : origin.parameters) by.folded[name].push_back(tensor);
  }
  for (const auto& node : graph.node()) {
    const bool packs = node.op_type() == "LSTM" || node.op_type() == "GRU" || node.op_type() == "RNN";
    for (const std::string& name : node.input()) {
      if (listed.contains(name)) by.listed[module_path(node)].push_back(name);
      if (packs) by.packed.insert(name);
    }
  }
  const auto computed = used_up(file, by, declarations);
  for (const auto& [name, weight] : computed) damage.push_back(weight);
  for (const std::string& name : listed) {
    if (!read.contains(name) && !computed.contains(name)) damage.push_back(lost(name, declarations, by));
  }
  if (listed.empty()) add_anonymous(graph, damage);
  add_plain_folded(graph, declarations, damage);
  return damage;
}

std::vector<std::string> sentences_about(const std::vector<ExporterDamage>& damage) {
  static constexpr std::pair<const char*, const char*> kSentences[] = {
      {"merged", "were stored once with others of equal values, and are trained apart again"},
      {"constant", "are none, but constants that were stored once with weights of equal values; they are constants again"},
      {"restored", "were left out because they were 0, and are trained again"},
      {"folded",
       "went into other weights with a BatchNormalization, which is not there any more in training; export with the model in training "
       "mode, and with optimize=False (or TrainingMode.TRAINING and do_constant_folding=False)"},
      {"renamed",
       "are transposed or packed under names that the exporter made up; they train, but --freeze, --train and checkpoints know "
       "them by those names; export with optimize=False to keep them"},
      {"unfolded", "were folded into other tensors by repeating, picking or transposing their values, and are weights again"},
      {"computed",
       "were used up by the exporter, which computed other tensors with them: what it made of them trains in their place or not at all, "
       "which is not training the model; export with optimize=False"},
      {"missing", "are read by no node: they were folded into other tensors, or left out because they were 0; export with optimize=False"}};
  std::vector<std::string> sentences;
  for (const auto& [what, sentence] : kSentences) {
    std::size_t count = 0;
    std::string first;
    for (const ExporterDamage& weight : damage) {
      if (weight.what != what) continue;
      if (count++ == 0) first = weight.tensor;
    }
    if (count > 0) sentences.push_back(std::to_string(count) + " weights ('" + first + "'" + (count > 1 ? ", ...) " : ") ") + sentence);
  }
  return sentences;
}

}  // namespace rehearsal::formats
