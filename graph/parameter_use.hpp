#pragma once
// What a model does with its weights: optimizers that treat matrices otherwise than vectors ask for it.

#include <cstdint>
#include <vector>

#include "graph/graph.hpp"

namespace rehearsal::graph {

/// How an optimizer sees a parameter.
struct ParameterUse {
  Shape shape;
  /// Activations are multiplied with it (or convolved by it), no lookup reads it, and its product makes no output of the model, be it
  /// through a bias, views and functions of one element.
  bool hidden_matrix = false;
  /// Its sides as a matrix: the last two dimensions, those before count matrices; of a convolution's kernels the outputs, and all others
  /// together. 0 of parameters that are neither a hidden matrix nor of one product.
  std::int64_t rows = 0, columns = 0;
  bool outputs_are_rows = false;  ///< else its columns are what a product with it makes
  /// One product or convolution reads it, and nothing else: its gradient is one product of what goes in and of what comes out.
  bool one_product = false;
  bool kernels = false;  ///< of a convolution
};

/// By tensor of a model without backward pass; of tensors that are no weights the shape alone.
[[nodiscard]] std::vector<ParameterUse> parameter_uses(const Graph& model);

/// The stored weight that a product's second operand is, as it is or transposed; None: there is none.
[[nodiscard]] TensorId weight_of_product(const Graph& model, const Node& node);

}  // namespace rehearsal::graph
