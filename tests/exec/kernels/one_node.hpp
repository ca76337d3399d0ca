#pragma once
// Runs one node with its reference kernel.

#include <optional>
#include <string>
#include <vector>

#include "exec/kernels/kernel.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::exec {

/// A whole tensor of doubles; the node sees it in `dtype`.
struct Array {
  graph::Shape shape;
  std::vector<double> values;
  std::optional<DType> dtype = std::nullopt;  ///< default: the type that the node is run in

  /// first, first + step, ... in row-major order.
  static Array range(graph::Shape shape, double first = 0, double step = 1);
};

/// Where a local tensor lies in the unsplit one.
struct Block {
  graph::Shape origin, global;
};

struct OneNode {
  std::string op;
  graph::Attributes attributes;
  std::vector<std::optional<Array>> inputs;
  RunContext context = {};
  std::vector<Block> input_blocks = {};          ///< of all operands, or none: the tensors are whole
  std::vector<Block> output_blocks = {};         ///< of all results, or none
  std::vector<graph::Shape> output_shapes = {};  ///< of local results, where they do not follow from local operands
  std::vector<DType> output_types = {};          ///< of the first results, where a Program gives them others than the operator
  plan::Format images = plan::Format::Plain;     ///< the order in which images among the operands are; arrays here are always plain
};

/// All results. Throws BadInput from the row's `infer`, and fails when no reference kernel takes the node.
std::vector<Array> run(const OneNode& node, DType dtype = DType::F64);

/// Of nodes whose kernels join each other, by one call; all operands and results are plain.
std::vector<std::vector<Array>> run_together(const std::vector<OneNode>& nodes, DType dtype);

/// The same by the reference kernels, whatever is under test.
std::vector<Array> run_reference(const OneNode& node, DType dtype = DType::F64);

/// Operands that have no type of their own, as `dtype` holds them.
OneNode rounded(OneNode node, DType dtype);

/// Result 0 in f64, after checking that f32 gives the same to 1e-5 of the largest element.
Array result_of(const OneNode& node);

/// True when all elements agree to `tolerance` of the largest.
bool close(const std::vector<double>& a, const std::vector<double>& b, double tolerance = 1e-12);

}  // namespace rehearsal::exec
