// Normalizations and dropout, in the form of training.

#include <algorithm>

#include "formats/onnx/ops/import_families.hpp"
#include "graph/composites.hpp"

namespace rehearsal::formats {
namespace {

using graph::Attributes;
using graph::Shape;
using graph::TensorId;

TensorId mean_over(NodeImport& n, TensorId x, const std::vector<std::int64_t>& axes, bool keep) {
  double count = 1;
  for (const std::int64_t axis : axes) count *= static_cast<double>(n.builder().type(x).shape[static_cast<std::size_t>(axis)]);
  return n.emit("ReduceSum", {x}, {{"axes", axes}, {"keepdims", std::int64_t{keep}}, {"scale", 1 / count}});
}

/// The training form where the model itself is not trained: statistics of the batch, and the running ones as results.
void batch_statistics(NodeImport& n, double epsilon) {
  const Shape shape = n.shape(0);
  if (shape.size() < 2) n.fail("needs a batch and channels");
  std::vector<std::int64_t> axes{0};
  for (std::size_t d = 2; d < shape.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  Shape wide(shape.size(), 1);
  wide[1] = shape[1];
  const DType type = n.type(0).dtype;
  const TensorId mean = mean_over(n, n.input(0), axes, true), centered = n.emit("Sub", {n.input(0), mean});
  const TensorId variance = mean_over(n, n.emit("Mul", {centered, centered}), axes, true);
  const TensorId deviation = n.emit("Sqrt", {n.emit("Add", {variance, n.scalar(epsilon, type)})});
  const TensorId scaled = n.emit("Mul", {n.emit("Div", {centered, deviation}), n.reshape(n.input(1), wide)});
  n.set(0, n.emit("Add", {scaled, n.reshape(n.input(2), wide)}));
  const double momentum = n.number("momentum", 0.9);
  const auto running = [&](std::size_t operand, TensorId batch) {
    const TensorId old = n.emit("Scale", {n.input(operand)}, {{"factor", momentum}});
    return n.emit("Add", {old, n.emit("Scale", {n.reshape(batch, {shape[1]})}, {{"factor", 1 - momentum}})});
  };
  if (n.wants(1)) n.set(1, running(3, mean));
  if (n.wants(2)) n.set(2, running(4, variance));
}

/// (x - mean) / deviation over the axes (default: all but the channels).
void mean_variance(NodeImport& n) {
  std::vector<std::int64_t> axes = n.has_attribute("axes") ? n.integers("axes") : std::vector<std::int64_t>{0, 2, 3};
  for (std::int64_t& axis : axes) axis = graph::normalize_axis(axis, n.rank(0));
  const TensorId centered = n.emit("Sub", {n.input(0), mean_over(n, n.input(0), axes, true)});
  const TensorId variance = mean_over(n, n.emit("Mul", {centered, centered}), axes, true);
  // the constant of the function's body in the specification
  n.set(0, n.emit("Div", {centered, n.emit("Add", {n.emit("Sqrt", {variance}), n.scalar(1e-9, n.type(0).dtype)})}));
}

/// Newer exporters leave "training_mode" out even of a network in training, so the form of the file says nothing.
void batch_norm(NodeImport& n) {
  const double epsilon = n.number("epsilon", 1e-5);
  if (n.version() < 9 && n.integer("spatial", 1) == 0) n.unsupported("statistics per element (spatial = 0) are not supported");
  if (!n.training() && n.integer("training_mode", 0) != 0) return batch_statistics(n, epsilon);
  if (!n.training()) {
    n.set(0, n.emit("BatchNormInference", {n.input(0), n.input(1), n.input(2), n.input(3), n.input(4)}, {{"epsilon", epsilon}}));
  } else {
    const graph::BatchNorm norm{
        n.input(0), n.input(1), n.input(2), n.state(3, ".running_mean"), n.state(4, ".running_var"), epsilon, n.number("momentum", 0.9)};
    n.set(0, graph::add_batch_norm(n.builder(), norm, n.name()));
  }
  for (std::size_t i = 1; i < n.output_count(); ++i) {
    if (n.wants(i)) n.declare(i, n.type(2 + (i - 1) % 2 + 1));
  }
}

void instance_norm(NodeImport& n) {
  n.set(0, graph::add_group_norm(
               n.builder(), {n.input(0), n.input(1), n.input(2), n.rank(0) < 2 ? 1 : n.shape(0)[1], n.number("epsilon", 1e-5)}, n.name()));
}

/// Before version 21 scale and bias have one number per group: each stands for the group's channels.
TensorId of_channels(NodeImport& n, std::size_t i, std::int64_t groups) {
  const std::int64_t channels = n.shape(0).at(1);
  if (n.version() >= 21 || n.shape(i) == Shape{channels}) return n.input(i);
  if (n.shape(i) != Shape{groups} || channels % groups != 0)
    n.fail("operand " + std::to_string(i) + " has shape " + graph::to_text(n.shape(i)) + ", it needs one number for each of " +
           std::to_string(groups) + " groups");
  const TensorId expanded = n.emit("Expand", {n.reshape(n.input(i), {groups, 1})}, {{"shape", Shape{groups, channels / groups}}});
  return n.reshape(expanded, {channels});
}

void group_norm(NodeImport& n) {
  const std::int64_t groups = n.integer("num_groups", 1);
  if (n.rank(0) < 2 || groups < 1) n.fail("needs a batch, channels and at least one group");
  const TensorId scale = of_channels(n, 1, groups), bias = of_channels(n, 2, groups);
  n.set(0, graph::add_group_norm(n.builder(), {n.input(0), scale, bias, groups, n.number("epsilon", 1e-5)}, n.name()));
}

std::int64_t first_axis(const NodeImport& n) { return graph::normalize_axis(n.integer("axis", -1), n.rank(0)); }

/// Scale and bias may have leading dimensions of size 1.
TensorId trailing_operand(NodeImport& n, std::size_t i, std::int64_t axis) {
  const Shape shape = n.shape(0), wanted(shape.begin() + axis, shape.end());
  if (n.shape(i) == wanted) return n.input(i);
  if (graph::element_count(n.shape(i)) == graph::element_count(wanted)) return n.reshape(n.input(i), wanted);
  return n.emit("Expand", {n.input(i)}, {{"shape", wanted}});
}

/// Scale and bias may also vary along the dimensions in front of `axis`: then they are applied behind a plain normalization.
bool varies_in_front(const NodeImport& n, std::size_t i, std::int64_t axis) {
  const Shape shape = n.shape(i);
  const auto trailing = static_cast<std::int64_t>(n.rank(0)) - axis, leading = static_cast<std::int64_t>(shape.size()) - trailing;
  return std::any_of(shape.begin(), shape.begin() + std::max<std::int64_t>(leading, 0), [](std::int64_t size) { return size != 1; });
}

TensorId ones(NodeImport& n, std::int64_t axis) {
  const Shape shape = n.shape(0), trailing(shape.begin() + axis, shape.end());
  return n.constant(graph::Value::of_reals(std::vector<double>(static_cast<std::size_t>(graph::element_count(trailing)), 1.0), trailing,
                                           n.type(0).dtype));
}

/// Mean and inverse deviation, where the model reads them: computed for themselves, so that gradients flow through them.
void layer_statistics(NodeImport& n, std::int64_t axis) {
  graph::TensorType statistic = n.type(0);
  std::fill(statistic.shape.begin() + axis, statistic.shape.end(), 1);
  for (std::size_t i = 1; i <= 2; ++i)
    if (n.wants(i) && !n.reads(i)) n.declare(i, statistic);
  if (!n.reads(1) && !n.reads(2)) return;
  std::vector<std::int64_t> axes;
  for (auto d = axis; d < static_cast<std::int64_t>(n.rank(0)); ++d) axes.push_back(d);
  const TensorId mean = mean_over(n, n.input(0), axes, true);
  if (n.reads(1)) n.set(1, mean);
  if (!n.reads(2)) return;
  const TensorId centered = n.emit("Sub", {n.input(0), mean});
  const TensorId variance = mean_over(n, n.emit("Mul", {centered, centered}), axes, true);
  n.set(2, n.emit("Reciprocal", {n.emit("Sqrt", {n.emit("Add", {variance, n.scalar(n.number("epsilon", 1e-5), statistic.dtype)})})}));
}

void layer_norm(NodeImport& n) {
  const std::int64_t axis = first_axis(n);
  const bool apart = varies_in_front(n, 1, axis) || (n.has(2) && varies_in_front(n, 2, axis));
  std::vector<TensorId> operands{n.input(0), apart ? ones(n, axis) : trailing_operand(n, 1, axis)};
  if (n.has(2) && !apart) operands.push_back(trailing_operand(n, 2, axis));
  TensorId y = n.emit("LayerNormalization", std::move(operands), {{"axis", axis}, {"epsilon", n.number("epsilon", 1e-5)}});
  if (apart) y = n.emit("Mul", {y, n.input(1)});
  if (apart && n.has(2)) y = n.emit("Add", {y, n.input(2)});
  n.set(0, y);
  layer_statistics(n, axis);
}

void rms_norm(NodeImport& n) {
  const std::int64_t axis = first_axis(n);
  const bool apart = varies_in_front(n, 1, axis);
  const TensorId scale = apart ? ones(n, axis) : trailing_operand(n, 1, axis);
  const TensorId y = n.emit("RMSNormalization", {n.input(0), scale}, {{"axis", axis}, {"epsilon", n.number("epsilon", 1e-5)}});
  n.set(0, apart ? n.emit("Mul", {y, n.input(1)}) : y);
}

/// x / (bias + alpha / size * sum of squares over `size` neighbouring channels)^beta: the sum is an average pool over channels as an image
/// axis.
void local_response(NodeImport& n) {
  const std::int64_t size = n.integer("size", 1);
  const Shape shape = n.shape(0);
  if (shape.size() < 2 || size < 1) n.fail("needs channels and a positive size");
  const std::int64_t low = (size - 1) / 2, high = size - 1 - low;
  const TensorId squares = n.emit("Mul", {n.input(0), n.input(0)});
  const std::int64_t pixels = graph::element_count(shape) / std::max<std::int64_t>(1, shape[0] * shape[1]);
  const TensorId image = n.reshape(squares, {shape[0], 1, shape[1], pixels});
  const TensorId mean = n.emit("AveragePool", {image},
                               {{"kernel_shape", Shape{size, 1}},
                                {"strides", Shape{1, 1}},
                                {"pads", Shape{low, 0, high, 0}},
                                {"count_include_pad", std::int64_t{1}}});
  const TensorId scaled = n.emit("Scale", {n.reshape(mean, shape)}, {{"factor", n.number("alpha", 1e-4)}});
  const DType type = n.type(0).dtype;
  const TensorId base = n.emit("Add", {scaled, n.scalar(n.number("bias", 1.0), type)});
  n.set(0, n.emit("Div", {n.input(0), n.emit("Pow", {base, n.scalar(n.number("beta", 0.75), type)})}));
}

/// Whether a node drops is the run's decision, not the file's: exporters lose the training flag of attention dropout. A model that is only
/// evaluated drops where its node says so.
bool drops(NodeImport& n) {
  if (!is_float(n.type(0).dtype)) return false;
  return n.training() || (n.version() >= 12 && n.has(2) && n.known_number(2, "whether it drops") != 0);
}

void dropout(NodeImport& n) {
  const bool active = drops(n);
  double ratio = n.number("ratio", 0.5);
  if (n.version() >= 12) ratio = active && n.has(1) ? n.known_number(1, "the ratio") : 0.5;
  const bool masked = n.reads(1);
  const auto dropped = [&](TensorId x) { return n.emit("Dropout", {x}, {{"ratio", ratio}, {"stream", n.next_stream()}}); };
  if (n.wants(1) && !masked) n.declare(1, {DType::Bool, n.shape(0)});
  if (!active || ratio == 0) {
    if (masked) n.set(1, n.emit("ConstantOfShape", {}, {{"shape", n.shape(0)}, {"dtype", std::string("bool")}, {"value", 1.0}}));
    return n.set(0, n.input(0));
  }
  if (!masked) return n.set(0, dropped(n.input(0)));
  // the mask is what a dropout of ones keeps
  const DType type = n.type(0).dtype;
  const TensorId kept = dropped(n.emit("ConstantOfShape", {}, {{"shape", n.shape(0)}, {"dtype", std::string(name(type))}, {"value", 1.0}}));
  n.set(1, n.emit("Greater", {kept, n.scalar(0, type)}));
  n.set(0, n.emit("Mul", {n.input(0), kept}));
}

constexpr ImportRow kNormalizationRows[] = {
    {kDefaultDomain, "BatchNormalization", 1, kNewest, batch_norm},
    {kDefaultDomain, "InstanceNormalization", 1, kNewest, instance_norm},
    {kDefaultDomain, "GroupNormalization", 18, kNewest, group_norm},
    {kDefaultDomain, "LayerNormalization", 1, kNewest, layer_norm},
    {kDefaultDomain, "RMSNormalization", 1, kNewest, rms_norm},
    {kDefaultDomain, "MeanVarianceNormalization", 9, kNewest, mean_variance},
    {kDefaultDomain, "LRN", 1, kNewest, local_response},
    {kDefaultDomain, "Dropout", 1, kNewest, dropout},
};

}  // namespace

std::span<const ImportRow> normalization_rows() { return kNormalizationRows; }

}  // namespace rehearsal::formats
