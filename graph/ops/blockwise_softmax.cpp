// What attention is made of where its keys come block by block (Liu et al. 2023, "Ring Attention"; Dao et al. 2022, "FlashAttention").
// Of one block, softmax gives weights that sum to 1, and of each row the largest score m and the sum s of exp(x - m). Two parts y_a, y_b
// of a result become one by m = max(m_a, m_b), f = s exp(m_own - m), s = f_a + f_b, y = (f_a y_a + f_b y_b) / s (Milakov and Gimelshein
// 2018, section 3.1). Both numbers are kept rather than m + log s, which would lose the digits of s where scores are large.
// Backward the weights are exp(x - m) / s, and dx = w (dw - d), where d = sum over all keys of dw w = sum over the result of dy y.
// Lowering writes these kernels in place of a softmax and its gradient; no graph has them, so they have neither gradients nor labels.

#include "base/error.hpp"
#include "graph/ops/axes.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

constexpr std::string_view kBlockwiseSoftmaxNoGradient = "written by lowering, behind all gradients";

/// So many numbers for each row of the last dimension.
TensorType per_row(const TensorType& type, std::int64_t count) {
  TensorType row = type;
  if (row.shape.empty()) throw BadInput("operand 0 is a number, it must have a last dimension: the keys");
  row.shape.back() = count;
  return row;
}

std::vector<TensorType> infer_softmax_of_blockwise_softmax(const NodeView& node) {
  require_inputs(node, 1, 1);
  require_float(node, 0);
  return {node.input(0), per_row(node.input(0), 2)};
}

std::vector<TensorType> infer_merge(const NodeView& node) {
  require_inputs(node, 4, 4);
  for (std::size_t i = 1; i < 4; ++i) require_same_type(node, 0, i);
  return {node.input(0), node.input(1)};
}

std::vector<TensorType> infer_dot(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_same_type(node, 0, 1);
  return {per_row(node.input(0), 1)};
}

template <std::size_t kOperands>
std::vector<TensorType> infer_weights(const NodeView& node) {
  require_inputs(node, kOperands, kOperands);
  for (std::size_t i = 1; i < kOperands; ++i) require_same_type(node, 0, i);
  return infer_same(node);
}

constexpr OpSchema kBlockwiseSoftmaxRows[] = {
    without_gradient("BlockSoftmax",
                     "softmax along the last dimension, and of each row the maximum and the sum of exponentials; zeros where all is masked",
                     CostFamily::Normalization, {infer_softmax_of_blockwise_softmax, nullptr, work_per_operand<9>},
                     kBlockwiseSoftmaxNoGradient),
    {.name = "MergeBlocks",
     .description = "two results of attention with maxima and sums of their rows (y, ms, y of a block, ms of a block) as one: (y, ms)",
     .family = CostFamily::Elementwise,
     .traits = Trait::InPlace,
     .infer = infer_merge,
     .work = work_per_operand<3>,
     .no_gradient = kBlockwiseSoftmaxNoGradient},
    without_gradient("BlockWeights", "exp(x - m) / s: a block of a softmax of which maximum and sum of each row are known",
                     CostFamily::Elementwise, {infer_weights<2>, nullptr, work_per_operand<5>}, kBlockwiseSoftmaxNoGradient),
    without_gradient("RowDot", "sum of products along the last dimension", CostFamily::Reduction, {infer_dot, nullptr, work_per_operand<2>},
                     kBlockwiseSoftmaxNoGradient),
    without_gradient("BlockSoftmaxGrad", "gradient of a block of softmax: (gradient, weights, RowDot of all blocks)",
                     CostFamily::Elementwise, {infer_weights<3>, nullptr, work_per_operand<2>}, kBlockwiseSoftmaxNoGradient),
};

}  // namespace

std::span<const OpSchema> blockwise_softmax_ops() { return kBlockwiseSoftmaxRows; }

}  // namespace rehearsal::graph
