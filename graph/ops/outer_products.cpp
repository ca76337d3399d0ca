// Sums of the outer products of features with themselves: the factors of K-FAC's approximation, of what goes into a layer and of the
// gradients of what comes out (Martens, Grosse, ICML 2015; of convolutions: Grosse, Martens, "A Kronecker-factored approximate Fisher
// matrix for convolution layers", ICML 2016).

#include "base/error.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"
#include "graph/ops/window.hpp"

namespace rehearsal::graph {
namespace {

bool of_images(const NodeView& node) { return node.attributes.find("kernel_shape") != nullptr; }

struct FeatureSizes {
  std::int64_t features, positions;
};

/// Features: the last dimension, or what a window of an image has under it.
FeatureSizes feature_sizes(const NodeView& node) {
  const Shape& x = node.input(0).shape;
  if (!of_images(node)) return {x.back(), element_count(x) / std::max<std::int64_t>(1, x.back())};
  const Window window = window_of(node.attributes, node.attributes.integers("kernel_shape"));
  return {x[1] * element_count(window.kernel), x[0] * element_count(windows_in(spatial_of(x), window))};
}

/// (x, step) -> products
std::vector<TensorType> infer_outer_products(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_float(node, 0);
  require_rank(node, 0, of_images(node) ? 3 : 2, 5);
  if (of_images(node) && node.attributes.integers("kernel_shape").size() + 2 != node.input(0).shape.size())
    throw BadInput("attribute 'kernel_shape' needs one entry per spatial axis of operand 0 " + to_text(node.input(0).shape));
  require_step(node, 1);
  (void)at_least_one(node.attributes, "interval");
  const std::int64_t features = feature_sizes(node).features;
  return {{node.input(0).dtype, {features, features}}};
}

/// Positions are summed; every product wants all features, and a window its whole image.
SplitRule labels_of_outer_products(const NodeView& node) {
  const Shape& x = node.input(0).shape;
  TensorLabels labels = unlabelled(x);
  const std::size_t summed = of_images(node) ? 1 : x.size() - 1;
  for (std::size_t d = 0; d < summed; ++d) labels[d] = whole(static_cast<int>(d), x[d]);
  return {{labels, {}}, {unlabelled(node.output().shape)}, std::vector<LabelKind>(summed, LabelKind::Sum)};
}

/// In the mean of all steps; a product and its mirror image are computed once.
Work work_of_outer_products(const NodeView& node) {
  const FeatureSizes sizes = feature_sizes(node);
  const auto features = static_cast<double>(sizes.features), interval = static_cast<double>(at_least_one(node.attributes, "interval"));
  return {Flops(static_cast<double>(sizes.positions) * features * features / interval), traffic(node) * (1 / interval)};
}

constexpr OpSchema kOuterProductRows[] = {
    without_gradient(
        "OuterProducts",
        "(x, step): scale times the sum of f fᵀ over all positions, f being the last dimension or, with 'kernel_shape', what a window of "
        "an image [n, c, spatial] has under it; in every interval-th step, else zeros",
        CostFamily::MatMul, {infer_outer_products, labels_of_outer_products, work_of_outer_products}, "it belongs to the update"),
};

}  // namespace

std::span<const OpSchema> outer_product_ops() { return kOuterProductRows; }

}  // namespace rehearsal::graph
