#pragma once
// What an import row works with: one node of the file, its operands already in the graph.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "graph/builder.hpp"

namespace rehearsal::onnx {
class AttributeProto;
class NodeProto;
}  // namespace rehearsal::onnx

namespace rehearsal::formats {

class Importer;
struct ImportRow;

/// An operator, or a form of one, that has no row. Caught when the import is to go on.
class UnsupportedOperator : public BadInput {
 public:
  using BadInput::BadInput;
};

/// What a name of the file stands for: a tensor, a sequence of tensors, or something behind an unknown operator.
using Meaning = std::variant<std::monostate, graph::TensorId, std::vector<graph::TensorId>>;
/// The stored tensors of a body that runs several times, by the name they have in it.
using BodyMemory = std::unordered_map<std::string, Meaning>;

class NodeImport {
 public:
  NodeImport(Importer& importer, const onnx::NodeProto& node, std::int64_t version);

  [[nodiscard]] const std::string& op() const;
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::int64_t version() const { return version_; }  ///< of the opset that its domain imports
  /// Training form is wanted (ImportOptions).
  [[nodiscard]] bool training() const;
  /// Whether PyTorch's older exporter wrote the file: it keeps no notes of what the model did.
  [[nodiscard]] bool traced() const;

  // Operands. An optional operand may be missing or have an empty name.
  [[nodiscard]] std::size_t input_count() const { return inputs_.size(); }
  [[nodiscard]] bool has(std::size_t i) const { return i < inputs_.size() && !std::holds_alternative<std::monostate>(inputs_[i]); }
  [[nodiscard]] graph::TensorId input(std::size_t i) const;
  [[nodiscard]] Meaning meaning(std::size_t i) const { return i < inputs_.size() ? inputs_[i] : Meaning{}; }
  [[nodiscard]] graph::TensorId input_or_none(std::size_t i) const { return has(i) ? input(i) : graph::TensorId::None; }
  [[nodiscard]] std::vector<graph::TensorId> inputs() const;  ///< all, None where absent
  [[nodiscard]] const std::vector<graph::TensorId>& sequence(std::size_t i) const;
  [[nodiscard]] graph::TensorType type(std::size_t i) const;
  [[nodiscard]] graph::Shape shape(std::size_t i) const;  ///< by value: what lies in the graph moves when nodes are added
  [[nodiscard]] std::size_t rank(std::size_t i) const { return shape(i).size(); }
  /// nullptr when the values are not known.
  [[nodiscard]] const graph::Value* value(std::size_t i) const;
  /// The values of an operand that must be known now. Throws BadInput saying `what` they are.
  [[nodiscard]] const graph::Value& known(std::size_t i, std::string_view what) const;
  [[nodiscard]] const graph::Value& known_tensor(graph::TensorId t, std::string_view what) const;
  [[nodiscard]] std::vector<std::int64_t> known_integers(std::size_t i, std::string_view what) const;
  [[nodiscard]] std::int64_t known_integer(std::size_t i, std::string_view what) const;  ///< of one element
  [[nodiscard]] double known_number(std::size_t i, std::string_view what) const;

  // Attributes
  [[nodiscard]] bool has_attribute(std::string_view key) const { return attribute(key) != nullptr; }
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  [[nodiscard]] double number(std::string_view key, double otherwise) const;
  [[nodiscard]] std::string text(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key) const;
  [[nodiscard]] std::vector<double> numbers(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const;
  /// A tensor attribute's values; nullopt when there is none.
  [[nodiscard]] std::optional<graph::Value> tensor(std::string_view key) const;
  /// From attribute `key`, or from operand i (as newer versions have it); empty when neither is there.
  [[nodiscard]] std::vector<std::int64_t> integers_from(std::string_view key, std::size_t i) const;

  // Results
  [[nodiscard]] std::size_t output_count() const;
  [[nodiscard]] bool wants(std::size_t i) const;  ///< the file names it
  [[nodiscard]] bool reads(std::size_t i) const;  ///< something in the file reads it
  [[nodiscard]] const std::string& output_name(std::size_t i) const;
  /// Results beyond those that the file names are dropped.
  void set(std::size_t i, graph::TensorId t) {
    if (i < outputs_.size()) outputs_[i] = t;
  }
  void set_meaning(std::size_t i, Meaning meaning) {
    if (i < outputs_.size()) outputs_[i] = std::move(meaning);
  }
  void set_sequence(std::size_t i, std::vector<graph::TensorId> parts) {
    if (i < outputs_.size()) outputs_[i] = std::move(parts);
  }

  [[nodiscard]] std::vector<Meaning> meanings() const { return inputs_; }
  [[nodiscard]] const std::vector<Meaning>& results() const { return outputs_; }
  /// Operand i is another tensor than the file says.
  void replace_input(std::size_t i, graph::TensorId t) { inputs_.at(i) = t; }

  // Nodes of the graph. Throw UnsupportedOperator when the operator table has no such row.
  graph::TensorId emit(std::string_view row, std::vector<graph::TensorId> operands, graph::Attributes attributes = {});
  std::vector<graph::TensorId> emit_all(std::string_view row, std::vector<graph::TensorId> operands, graph::Attributes attributes = {});
  graph::TensorId constant(graph::Value value);
  graph::TensorId scalar(double value, DType dtype) { return constant(graph::Value::scalar(value, dtype)); }
  graph::TensorId reshape(graph::TensorId t, graph::Shape shape);
  /// Whether the exporter's notes say that this node came from the framework's function `target` (a prefix: "aten.detach.").
  [[nodiscard]] bool stands_for(std::string_view target) const;
  /// What that function was called with, as the exporter wrote it ("%x", "2", "True"); empty when it did not.
  [[nodiscard]] std::vector<std::string> source_arguments() const;
  /// Whether result `output`, a copy of a stored tensor, is a tensor that was merged with it rather than a copy that the model makes.
  [[nodiscard]] bool is_separate(std::size_t output) const;
  /// A stored tensor of the file with another identity: same type and contents, named after result `output`.
  graph::TensorId copy_of_stored(graph::TensorId t, std::size_t output);
  /// Result i is not computed by anyone, only its type is known.
  void declare(std::size_t i, const graph::TensorType& type);
  /// A tensor attribute as result i: a weight when operands that hold weights read it, else a constant.
  void set_stored(std::size_t i, std::string_view key);
  /// Whether result 0, of this type and made of nothing, stands for a weight (stored.hpp).
  [[nodiscard]] bool stands_for_weight(const graph::TensorType& type) const;
  void set_weight(std::size_t i, const graph::TensorType& type, const graph::Contents& contents);
  /// Marks a tensor of fresh uniform noise, which only a comparison may read; and asks for that.
  void mark_noise(graph::TensorId t);
  [[nodiscard]] bool is_noise(std::size_t i) const;
  /// A number that no other random node of the model has.
  [[nodiscard]] std::int64_t next_stream();
  /// The storage of running statistics: operand i itself, or a copy when something else has it already; None when it is not stored.
  graph::TensorId state(std::size_t i, std::string_view suffix);
  /// Imports the body of a graph attribute in place, its inputs being `arguments`. Returns its outputs.
  std::vector<Meaning> run_body(std::string_view key, const std::vector<Meaning>& arguments, BodyMemory& memory);

  [[nodiscard]] graph::GraphBuilder& builder() const;
  void warn(const std::string& sentence) const;
  [[noreturn]] void fail(const std::string& what) const;         ///< BadInput naming the node
  [[noreturn]] void unsupported(const std::string& what) const;  ///< UnsupportedOperator naming node, operator and version

 private:
  friend class Importer;
  [[nodiscard]] const onnx::AttributeProto* attribute(std::string_view key) const;

  Importer& importer_;
  const onnx::NodeProto& node_;
  std::int64_t version_;
  std::string name_;
  std::vector<Meaning> inputs_, outputs_;
};

}  // namespace rehearsal::formats
