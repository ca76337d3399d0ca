// Symmetric matrices decomposed anew every so many steps: inverse roots, which Shampoo multiplies gradients with (Gupta, Koren, Singer,
// "Shampoo: Preconditioned Stochastic Tensor Optimization", ICML 2018), bases of eigenvectors, in which SOAP runs Adam (Vyas et al., "SOAP:
// Improving and Stabilizing Shampoo using Adam", ICLR 2025), and damped inverses, which K-FAC multiplies gradients with (Martens, Grosse,
// "Optimizing Neural Networks with Kronecker-factored Approximate Curvature", ICML 2015).

#include "base/error.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

/// Of n x n: the eigenvectors of a symmetric matrix by the QR algorithm (Golub, Van Loan, "Matrix Computations", section 8.3: 9 n^3), and
/// the product of them with their scaled transpose.
constexpr double kFlopsOfRoot = 9 + 2;
/// A product, the Householder vectors of its QR factorization (section 5.2: 4/3 n^3) and the orthogonal matrix that they make (4/3 n^3).
constexpr double kFlopsOfIteration = 2 + 8.0 / 3;
/// Cholesky's factor (section 4.2: n^3 / 3) and the two triangular solutions for every column of the identity.
constexpr double kFlopsOfInverse = 1.0 / 3 + 2;

/// (previous results, matrices, step) -> results; operands are counted.
std::vector<TensorType> infer_decomposed(const NodeView& node) {
  require_square_matrices(node, 1);
  const TensorType& matrices = node.input(1);
  if (node.input(0) != matrices)
    throw BadInput("operand 0 must be like operand 1 " + to_text(matrices.shape) + ": what was made of the matrices before");
  require_step(node, 2);
  (void)at_least_one(node.attributes, "root");
  (void)at_least_one(node.attributes, "interval");
  return {matrices};
}

std::vector<TensorType> infer_decomposed_alone(const NodeView& node) {
  require_inputs(node, 3, 3);
  return infer_decomposed(node);
}

/// (previous inverses, matrices, step, the matrices of the other side) -> inverses
std::vector<TensorType> infer_damped_inverse(const NodeView& node) {
  require_inputs(node, 4, 4);
  const auto types = infer_decomposed(node);
  require_square_matrices(node, 3);
  require_same_type(node, 1, 3);
  if (!(node.attributes.number("damping", 0) > 0)) throw BadInput("attribute 'damping' must be above 0");
  return types;
}

/// Matrices are independent of each other, and whole.
SplitRule labels_of_decomposed(const NodeView& node) {
  const Shape& shape = node.input(1).shape;
  SplitRule rule{{aligned_labels(shape, shape), aligned_labels(shape, shape), {}},
                 {aligned_labels(shape, shape)},
                 std::vector<LabelKind>(shape.size(), LabelKind::Parallel)};
  rule.kinds[shape.size() - 1] = rule.kinds[shape.size() - 2] = LabelKind::Opaque;
  if (node.inputs.size() > 3) {
    rule.inputs.push_back(unlabelled(node.input(3).shape));
    for (LabelKind& kind : rule.kinds) kind = LabelKind::Opaque;
  }
  return rule;
}

/// In the mean of all steps.
Work work_of_decomposed(const NodeView& node, double flops) {
  const auto side = static_cast<double>(node.input(1).shape.back()), elements = static_cast<double>(element_count(node.input(1).shape));
  const auto interval = static_cast<double>(at_least_one(node.attributes, "interval"));
  return {Flops(flops * elements * side / interval), traffic(node) * (1 / interval)};
}
Work work_of_root(const NodeView& node) { return work_of_decomposed(node, kFlopsOfRoot); }
Work work_of_basis(const NodeView& node) { return work_of_decomposed(node, kFlopsOfIteration); }
Work work_of_inverse(const NodeView& node) { return work_of_decomposed(node, kFlopsOfInverse); }

constexpr OpSchema decomposition(std::string_view name, std::string_view description, std::vector<TensorType> (*infer)(const NodeView&),
                                 Work (*work)(const NodeView&)) {
  return {.name = name,
          .description = description,
          .family = CostFamily::Decomposition,
          .traits = Trait::InPlace,
          .infer = infer,
          .labels = labels_of_decomposed,
          .work = work,
          .no_gradient = "it belongs to the update"};
}

constexpr OpSchema kDecompositionRows[] = {
    decomposition(
        "InverseRoot",
        "(previous, matrices, step): of symmetric matrices, eigenvalues to the power -1/root after a share eps of the largest was "
        "added to all and the sum of weights 1 - decay^step divided out, in every interval-th step; meanwhile the previous result",
        infer_decomposed_alone, work_of_root),
    decomposition(
        "EigenBasis",
        "(previous, matrices, step): orthonormal columns that approach the eigenvectors of symmetric matrices, the largest "
        "eigenvalue's first: in the first step those themselves, in every interval-th later one the previous ones multiplied with "
        "the matrix and made orthonormal; a share eps of the largest diagonal element is added to the diagonal before",
        infer_decomposed_alone, work_of_basis),
    decomposition("DampedInverse",
                  "(previous, matrix, step, the other side's matrix): the inverse of a symmetric matrix A and c on its diagonal, c being "
                  "sqrt(damping (trace A / rows of A) / (trace B / rows of B)), B being the other side's, in every interval-th step; "
                  "meanwhile the previous result",
                  infer_damped_inverse, work_of_inverse),
};

}  // namespace

std::span<const OpSchema> decomposition_ops() { return kDecompositionRows; }

}  // namespace rehearsal::graph
