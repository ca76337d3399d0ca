#pragma once
// The tensors that a graph of a file stores, and the decision which of them are trained (the rule of formats/onnx/model_import.hpp).

#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "formats/onnx/model_file.hpp"
#include "formats/onnx/model_import.hpp"
#include "formats/onnx/usage.hpp"

namespace rehearsal::formats {

/// What the exporter says about a tensor (torch.export's InputSpec.kind). Unlisted: it listed all parameters and buffers, this is none of
/// them.
enum class DeclaredKind : std::uint8_t { Unknown, Parameter, Buffer, UserInput, Unlisted };

/// A tensor of the file with the facts that decide its role.
struct FileTensor {
  std::string name;
  graph::TensorType type;
  unsigned usage = 0;
  DeclaredKind declared = DeclaredKind::Unknown;
  bool all_listed = false;  ///< the file stores every parameter that the exporter lists
  bool traced = false;      ///< by TorchScript's exporter, which keeps parameters as initializers under their own names
  bool left_out = false;    ///< the model's metadata says that this input stands for a tensor whose values were left out
};

/// Whether a float tensor that is stored anyway holds weights.
[[nodiscard]] graph::TensorRole role_of_stored(const FileTensor& candidate, const graph::Contents& contents);
/// Whether an input without a value is a weight rather than data. `fixed`: its shape has no symbol.
[[nodiscard]] bool is_weight_input(const FileTensor& candidate, bool fixed);
/// Whether a node without operands (ConstantOfShape, RandomNormal) stands for a weight. `shape_name`: where its shape comes from, may be
/// empty.
[[nodiscard]] bool is_generated_weight(const FileTensor& candidate, const std::string& shape_name);

/// Declarations of a graph by tensor name.
class Declarations {
 public:
  Declarations(const onnx::ModelProto& model);

  [[nodiscard]] DeclaredKind kind(const std::string& name) const;
  [[nodiscard]] bool left_out(const std::string& name) const { return left_out_.contains(name); }
  /// The parameters that the exporter lists, whether or not they are in the file.
  [[nodiscard]] const std::set<std::string>& parameters() const { return parameters_; }
  [[nodiscard]] const std::set<std::string>& buffers() const { return buffers_; }
  /// The parameter or buffer that calls name so ("p_fc_weight"); nullptr when none is.
  [[nodiscard]] const std::string* called(const std::string& placeholder) const {
    const auto found = placeholders_.find(placeholder);
    return found == placeholders_.end() ? nullptr : &found->second;
  }
  /// nullptr when value_info does not mention the name.
  [[nodiscard]] const onnx::ValueInfoProto* value_info(const std::string& name) const;

 private:
  void read_signature(const std::string& text);

  std::unordered_map<std::string, DeclaredKind> kinds_;
  std::unordered_set<std::string> left_out_;
  std::set<std::string> parameters_, buffers_;
  std::unordered_map<std::string, std::string> placeholders_;
  std::unordered_map<std::string, const onnx::ValueInfoProto*> infos_;
};

}  // namespace rehearsal::formats
