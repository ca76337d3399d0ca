#include "formats/onnx/plain_norms.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "formats/onnx/folded.hpp"
#include "formats/onnx/notes.hpp"

namespace rehearsal::formats {
namespace {

constexpr int kScale = 1, kBias = 2;  ///< operands of every normalization

/// Which argument of a function of PyTorch an operator's scale is; its bias is the next one.
struct NormRow {
  std::string_view function, op;
  std::size_t scale;
};

constexpr NormRow kPlainNormsRows[] = {
    {"aten.layer_norm.", "LayerNormalization", 2},
    {"aten.native_layer_norm.", "LayerNormalization", 2},
    {"aten.rms_norm.", "RMSNormalization", 2},
    {"aten.group_norm.", "GroupNormalization", 2},
    {"aten.native_group_norm.", "GroupNormalization", 1},
    {"aten.instance_norm.", "InstanceNormalization", 1},
    {"aten.batch_norm.", "BatchNormalization", 1},
    {"aten.native_batch_norm.", "BatchNormalization", 1},
    {"aten._native_batch_norm_legit", "BatchNormalization", 1},
};

/// Within a group normalization that was taken apart the weights come behind the operator, which has none.
bool is_part_of_group_norm(const std::string& function, const std::string& op) {
  return op == "InstanceNormalization" && (function.starts_with("aten.group_norm.") || function.starts_with("aten.native_group_norm."));
}

/// The operands whose weights the model's call does not have.
std::set<int> made_up_operands(const onnx::NodeProto& node) {
  const std::string function = source_function(node);
  if (is_part_of_group_norm(function, node.op_type())) return {kScale, kBias};
  const auto row = std::find_if(std::begin(kPlainNormsRows), std::end(kPlainNormsRows), [&](const NormRow& candidate) {
    return candidate.op == node.op_type() && function.starts_with(candidate.function);
  });
  const auto arguments = row == std::end(kPlainNormsRows) ? std::vector<std::string>{} : source_arguments(node);
  std::set<int> operands;
  for (const int operand : {kScale, kBias}) {
    const std::size_t at = arguments.empty() ? 0 : row->scale + static_cast<std::size_t>(operand - kScale);
    if (at > 0 && at < arguments.size() && arguments[at] == "None") operands.insert(operand);
  }
  return operands;
}

}  // namespace

std::vector<ExporterDamage> separate_plain_norms(onnx::GraphProto& graph, const Declarations& declarations) {
  std::map<std::string, int> stored;
  for (int i = 0; i < graph.initializer_size(); ++i) stored[graph.initializer(i).name()] = i;
  std::vector<ExporterDamage> separated;
  for (auto& node : *graph.mutable_node()) {
    for (const int operand : made_up_operands(node)) {
      const auto weight = operand < node.input_size() ? stored.find(node.input(operand)) : stored.end();
      if (weight == stored.end()) continue;
      const std::string name = node.output(0) + (operand == kScale ? "/scale" : "/bias");
      if (stored.contains(name)) continue;  // a file that was taken apart already
      onnx::TensorProto copy = graph.initializer(weight->second);
      copy.set_name(name);
      node.set_input(operand, copy.name());
      declare_constant(graph, copy.name());
      if (declarations.parameters().contains(weight->first))
        separated.push_back(
            {copy.name(), "constant", "the exporter stored it as '" + weight->first + "', which had the same values", true});
      *graph.add_initializer() = std::move(copy);
    }
  }
  return separated;
}

}  // namespace rehearsal::formats
