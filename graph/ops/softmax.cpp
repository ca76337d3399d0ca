#include "graph/gradient.hpp"
#include "graph/ops/axes.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

std::vector<TensorType> infer_softmax_of_softmax(const NodeView& node) {
  require_inputs(node, 1, 1);
  require_float(node, 0);
  (void)axis_of(node, -1);
  return infer_same(node);
}

std::vector<TensorType> infer_softmax_gradient(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_float(node, 0);
  (void)axis_of(node, -1);
  return infer_broadcast(node);
}

SplitRule softmax_labels(const NodeView& node) { return labels_with_whole_axis(node, axis_of(node, -1)); }

constexpr int kSoftmaxFlops = 8;  ///< maximum, difference, exponential (4), sum, quotient

template <const char* kName>
void softmax_gradient(GradientContext& g) {
  g.set(0, g.emit1(kName, {g.gradient_of_output(), g.output()}, g.attributes()));
}

constexpr char kSoftmaxGrad[] = "SoftmaxGrad", kLogSoftmaxGrad[] = "LogSoftmaxGrad";
constexpr OpSchema kSoftmaxRows[] = {
    {.name = "Softmax",
     .description = "exp(x) over its sum along the attribute axis (default: the last)",
     .family = CostFamily::Normalization,
     .infer = infer_softmax_of_softmax,
     .labels = softmax_labels,
     .work = work_per_result<kSoftmaxFlops>,
     .gradient = softmax_gradient<kSoftmaxGrad>,
     .in_attention = AttentionPart::Softmax},
    with_gradient("LogSoftmax", "logarithm of Softmax", CostFamily::Normalization,
                  {infer_softmax_of_softmax, softmax_labels, work_per_result<kSoftmaxFlops>}, softmax_gradient<kLogSoftmaxGrad>),
    without_gradient(kSoftmaxGrad, "gradient of Softmax: (gradient, result)", CostFamily::Normalization,
                     {infer_softmax_gradient, softmax_labels, work_per_result<4>}),
    without_gradient(kLogSoftmaxGrad, "gradient of LogSoftmax: (gradient, result)", CostFamily::Normalization,
                     {infer_softmax_gradient, softmax_labels, work_per_result<4>}),
};

}  // namespace

std::span<const OpSchema> softmax_ops() { return kSoftmaxRows; }

}  // namespace rehearsal::graph
