#pragma once
// What an export row works with: one node of the graph and the message it is written to.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/onnx/rehearsal_onnx.pb.h"
#include "graph/op_schema.hpp"
#include "graph/value.hpp"

namespace rehearsal::formats {

/// The file being written.
struct ExportFile {
  const graph::Graph& graph;
  std::vector<std::vector<graph::NodeId>> consumers;
  onnx::ModelProto model;
  std::int64_t opset = 18;                    ///< raised by rows that need a newer one
  const graph::Graph* other_batch = nullptr;  ///< dimensions that differ in this graph are the batch, and written as a symbol
  std::size_t names = 0;
  bool inference = false;
};

class NodeExport {
 public:
  NodeExport(ExportFile& file, const graph::Node& node) : file_(file), node_(node) {}

  [[nodiscard]] const graph::Node& node() const { return node_; }
  [[nodiscard]] std::string_view op() const { return graph::schema(node_).name; }
  [[nodiscard]] const graph::Attributes& attributes() const { return node_.attributes; }
  [[nodiscard]] const graph::TensorType& type(std::size_t i) const { return file_.graph[node_.inputs.at(i)].type; }
  [[nodiscard]] const graph::TensorType& result_type() const { return file_.graph[node_.outputs.at(0)].type; }
  [[nodiscard]] bool has(std::size_t i) const { return i < node_.inputs.size() && node_.inputs[i] != graph::TensorId::None; }
  /// The file's name of an operand; empty when absent.
  [[nodiscard]] std::string input(std::size_t i) const { return has(i) ? name(node_.inputs[i]) : std::string(); }
  [[nodiscard]] std::string output(std::size_t i = 0) const { return i < node_.outputs.size() ? name(node_.outputs[i]) : std::string(); }
  [[nodiscard]] std::string name(graph::TensorId t) const { return t == graph::TensorId::None ? std::string() : file_.graph[t].name; }
  [[nodiscard]] const std::vector<graph::NodeId>& readers(graph::TensorId t) const { return file_.consumers[graph::index(t)]; }
  [[nodiscard]] const graph::Graph& graph() const { return file_.graph; }
  [[nodiscard]] bool inference() const { return file_.inference; }
  /// Dimensions of a tensor with -1 for the one that holds the batch, where the batch is a symbol. Refuses two of them.
  [[nodiscard]] std::vector<std::int64_t> free_shape(graph::TensorId t) const;

  /// Adds an operator; attributes follow through set().
  NodeExport& add(std::string_view op, std::vector<std::string> inputs, std::vector<std::string> outputs);
  /// The same with one result of a made-up name, which is returned.
  std::string add1(std::string_view op, std::vector<std::string> inputs);
  NodeExport& set(std::string_view key, std::int64_t value);
  NodeExport& set(std::string_view key, double value);
  NodeExport& set(std::string_view key, const std::string& value);
  NodeExport& set(std::string_view key, const std::vector<std::int64_t>& values);
  /// The framework's function that the operator just added stands for (notes.hpp), where its name does not tell.
  NodeExport& set_source_function(std::string_view target);
  NodeExport& set_source_call(std::string_view target, const std::vector<std::string>& arguments);
  /// Copies attributes of the graph's node that are there, under the same names.
  NodeExport& copy(std::initializer_list<std::string_view> keys);
  /// A small constant as initializer; returns its name.
  std::string integers(const std::vector<std::int64_t>& values);
  std::string integer(std::int64_t value);
  std::string scalar(double value, DType type);
  void need_opset(std::int64_t version);
  [[noreturn]] void refuse(const std::string& why) const;  ///< Refusal naming the node

 private:
  onnx::AttributeProto& attribute(std::string_view key, onnx::AttributeProto::AttributeType type);
  std::string initializer(const graph::Value& value);

  ExportFile& file_;
  const graph::Node& node_;
  onnx::NodeProto* last_ = nullptr;
};

struct ExportRow {
  std::string_view op;
  void (*write)(NodeExport&);
};
/// nullptr when the operator has no ONNX form.
[[nodiscard]] const ExportRow* find_export_row(std::string_view op);

}  // namespace rehearsal::formats
