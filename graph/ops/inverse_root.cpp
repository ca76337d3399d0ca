// Inverse roots of symmetric matrices, made anew every so many steps: what Shampoo multiplies gradients with (Gupta, Koren and Singer,
// "Shampoo: Preconditioned Stochastic Tensor Optimization", ICML 2018).

#include <string>

#include "base/error.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

/// Of n x n: the eigenvectors of a symmetric matrix by the QR algorithm (Golub, Van Loan, "Matrix Computations", section 8.3: 9 n^3), and
/// the product of them with their scaled transpose.
constexpr double kFlopsOfRoot = 9 + 2;

std::int64_t at_least_one(const Attributes& attributes, const char* name) {
  const auto value = attributes.integer(name, 1);
  if (value < 1) throw BadInput("attribute '" + std::string(name) + "' is " + std::to_string(value) + ", it must be at least 1");
  return value;
}

/// (previous roots, matrices, step) -> roots
std::vector<TensorType> infer_inverse_root(const NodeView& node) {
  require_inputs(node, 3, 3);
  require_float(node, 1);
  const TensorType& matrices = node.input(1);
  const Shape& shape = matrices.shape;
  if (shape.size() < 2 || shape.back() != shape[shape.size() - 2])
    throw BadInput("operand 1 has shape " + to_text(shape) + ", its last two dimensions must be equal");
  if (node.input(0) != matrices) throw BadInput("operand 0 must be like operand 1 " + to_text(shape) + ": the roots of before");
  if (node.input(2) != TensorType{DType::I64, {}}) throw BadInput("operand 2 must be an int64 scalar, the number of the step from 1");
  (void)at_least_one(node.attributes, "root");
  (void)at_least_one(node.attributes, "interval");
  return {matrices};
}

/// Matrices are independent of each other, and whole.
SplitRule labels_of_inverse_root(const NodeView& node) {
  const Shape& shape = node.input(1).shape;
  SplitRule rule{{aligned_labels(shape, shape), aligned_labels(shape, shape), {}},
                 {aligned_labels(shape, shape)},
                 std::vector<LabelKind>(shape.size(), LabelKind::Parallel)};
  rule.kinds[shape.size() - 1] = rule.kinds[shape.size() - 2] = LabelKind::Opaque;
  return rule;
}

/// In the mean of all steps.
Work work_of_inverse_root(const NodeView& node) {
  const auto side = static_cast<double>(node.input(1).shape.back()), elements = static_cast<double>(element_count(node.input(1).shape));
  const auto interval = static_cast<double>(at_least_one(node.attributes, "interval"));
  return {Flops(kFlopsOfRoot * elements * side / interval), traffic(node) * (1 / interval)};
}

constexpr OpSchema kInverseRootRows[] = {
    {.name = "InverseRoot",
     .description =
         "(previous, matrices, step): of symmetric matrices, eigenvalues to the power -1/root after a share eps of the largest was "
         "added to all and the sum of weights 1 - decay^step divided out, in every interval-th step; meanwhile the previous result",
     .family = CostFamily::Decomposition,
     .traits = Trait::InPlace,
     .infer = infer_inverse_root,
     .labels = labels_of_inverse_root,
     .work = work_of_inverse_root,
     .no_gradient = "it belongs to the update"},
};

}  // namespace

std::span<const OpSchema> inverse_root_ops() { return kInverseRootRows; }

}  // namespace rehearsal::graph
