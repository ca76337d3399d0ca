#pragma once
// An ONNX file as a Graph. Symbols are bound first, then one topological pass infers shapes and folds constants
// (graph/builder.hpp). Operators are rows of formats/onnx/ops/<family>.cpp.
//
// What is trained. ONNX does not tell parameters from buffers. A float tensor stored in the file is
//   1. State, when BatchNormalization reads it as running mean or variance, and no operand for weights;
//   2. what the exporter's InputSpec.kind metadata says, where there is some: PARAMETER, BUFFER (constant) or USER_INPUT (data);
//      and where it lists all of them, what is not listed is a Constant unless operands that hold weights read it (a transposed copy);
//   3. a Constant, when only operands read it that nobody trains (scales of Resize, bounds of Clip, ratio of Dropout, class weights of a
//   loss),
//      when it has rank 0, when it has one element, no operand that holds weights reads it and its name is one that exporters make
//      up ("val_12"), or when its values are 0 and one number <= -1e4 (an additive mask), frequencies 1, r, r^2, ... (rotary embedding) or
//      a table of sines and cosines of positions, or when it is the ones and zeros with which exporters write group normalization as
//      InstanceNormalization, or other normalizations without weights;
//   4. a Parameter otherwise.
// Float graph inputs of fixed shape that operands for weights read, or whose name has a dot, are stored tensors too (a file
// exported without its weights), and so are names that only value_info declares, and ConstantOfShape, RandomNormal and RandomUniform nodes
// that feed operands for weights. Integers and booleans are Constants. Whoever builds the training graph may override all of it by name.
// Identity(stored tensor) is a stored tensor of its own: exporters merge equal values, which would tie unrelated parameters.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "graph/graph.hpp"

namespace rehearsal::formats {

/// An input as the caller has it, whatever the file declares.
struct GivenInput {
  std::vector<graph::TensorType> types;  ///< of one tensor, or of the parts of a sequence
  bool sequence = false;
  bool absent = false;              ///< an optional without a value
  std::vector<graph::Value> known;  ///< as many as types: the input is a constant; empty: it is fed
};

/// What a pass of import did to one thing.
struct ImportChange {
  std::string_view what;  ///< "folded", "dropped", "recognized", "bound", ... (docs/onnx.md lists them)
  std::string name;       ///< of the node, tensor or size
  std::string detail = {};
};

/// What stands behind a pass of import (import_passes.hpp).
struct ImportPassResult {
  std::string_view pass, takes, leaves;
  bool of_file = true;  ///< nodes and tensors are the file's; false: the graph's
  std::size_t nodes = 0, tensors = 0;
  std::vector<ImportChange> changes;
};
using ImportListener = std::function<void(const ImportPassResult&)>;

struct ImportOptions {
  std::optional<std::int64_t> batch;          ///< binds the symbolic first dimension of every data input
  std::map<std::string, std::int64_t> binds;  ///< other symbols; an anonymous dimension is named "<input>.<axis>"
  bool training_form = true;                  ///< BatchNormalization by batch statistics, Dropout drops; false: as in inference
  bool collect_unknown = false;               ///< go on after an operator without a row, and list it in `unknown`
  std::map<std::string, GivenInput> given;    ///< inputs by name; the others are as the file declares them
  bool recognize = true;                      ///< operators written as several nodes become one again (graph/patterns/patterns.hpp)
  bool allow_missing_weights = false;         ///< external data that is not there becomes unknown contents, with a warning
  bool assume_sizes = false;                  ///< sizes that nobody gives: 4 where inputs begin with them, else 16; with a warning
  ImportListener after_pass = {};             ///< hears of every pass
};

struct UnknownOperator {
  std::string node, op, reason;
};

/// What an exporter did to a weight of the model.
struct ExporterDamage {
  std::string tensor;          ///< by the model's own name where the exporter tells it, else the file's
  std::string what;            ///< "merged", "restored", "unfolded", "tied", "renamed", "folded", "computed", "missing"
  std::string detail;          ///< a sentence
  bool undone = false;         ///< it trains as in the model
  std::string stored_as = {};  ///< the file's name of what holds it, for "renamed" and "tied"
};

struct ImportedModel {
  graph::Graph graph;
  std::map<std::string, graph::TensorType>
      tensors;                           ///< every tensor of the file whose type is known, by the file's name, folded ones included
  std::vector<std::string> unresolved;   ///< tensors of the file whose type is not known: only behind unknown operators
  std::vector<UnknownOperator> unknown;  ///< only with collect_unknown
  std::vector<std::string> warnings;
  std::map<std::string, std::int64_t> recognized;       ///< operators that were written as several nodes, by pattern
  std::vector<ExporterDamage> damage;                   ///< weight by weight
  std::map<std::string, std::int64_t> operators;        ///< nodes of the file by operator
  std::map<std::string, std::string> metadata;          ///< of the model and its graph
  std::string producer;                                 ///< "pytorch 2.1"
  std::int64_t opset = 1;                               ///< of the default domain
  std::map<std::string, std::size_t> sequence_outputs;  ///< length by name; the parts are outputs of the graph (part_name)
};

/// A part of a sequence that is an input or output of the file.
[[nodiscard]] inline std::string part_name(const std::string& sequence, std::size_t i) { return sequence + "." + std::to_string(i); }

/// A shape, axis or the like depends on values that are not known.
class DependsOnData : public BadInput {
 public:
  DependsOnData(std::string tensor, const std::string& message) : BadInput(message), tensor_(std::move(tensor)) {}
  [[nodiscard]] const std::string& tensor() const { return tensor_; }  ///< by the name in the graph

 private:
  std::string tensor_;
};

/// Throws BadInput naming the file and the byte, node or tensor when the model cannot be read, an operator is not supported, a symbol is
/// not bound (the message lists all of them), or shapes do not fit.
[[nodiscard]] ImportedModel import_onnx(const std::string& path, const ImportOptions& options);

}  // namespace rehearsal::formats
