// Normalizations and dropout, in the form of training.

#include "formats/onnx/ops/rows.hpp"
#include "graph/composites.hpp"

namespace rehearsal::formats {
namespace {

using graph::Attributes;
using graph::Shape;
using graph::TensorId;

/// Newer exporters leave "training_mode" out even of a network in training, so the form of the file says nothing.
void batch_norm(NodeImport& n) {
  const double epsilon = n.number("epsilon", 1e-5);
  if (n.version() < 9 && n.integer("spatial", 1) == 0) n.unsupported("statistics per element (spatial = 0) are not supported");
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

void group_norm(NodeImport& n) {
  if (n.version() < 21) n.unsupported("scale and bias per group are not supported");
  n.set(0, graph::add_group_norm(n.builder(), {n.input(0), n.input(1), n.input(2), n.integer("num_groups", 1), n.number("epsilon", 1e-5)},
                                 n.name()));
}

std::int64_t first_axis(const NodeImport& n) { return graph::normalize_axis(n.integer("axis", -1), n.rank(0)); }

/// Scale and bias may have leading dimensions of size 1.
TensorId trailing_operand(NodeImport& n, std::size_t i, std::int64_t axis) {
  const Shape shape = n.shape(0), wanted(shape.begin() + axis, shape.end());
  if (n.shape(i) == wanted) return n.input(i);
  if (graph::element_count(n.shape(i)) == graph::element_count(wanted)) return n.reshape(n.input(i), wanted);
  return n.emit("Expand", {n.input(i)}, {{"shape", wanted}});
}

void layer_norm(NodeImport& n) {
  const std::int64_t axis = first_axis(n);
  std::vector<TensorId> operands{n.input(0), trailing_operand(n, 1, axis)};
  if (n.has(2)) operands.push_back(trailing_operand(n, 2, axis));
  const auto results = n.emit_all("LayerNormalization", std::move(operands), {{"axis", axis}, {"epsilon", n.number("epsilon", 1e-5)}});
  for (std::size_t i = 0; i < n.output_count() && i < results.size(); ++i) n.set(i, results[i]);
}

void rms_norm(NodeImport& n) {
  const std::int64_t axis = first_axis(n);
  n.set(0,
        n.emit("RMSNormalization", {n.input(0), trailing_operand(n, 1, axis)}, {{"axis", axis}, {"epsilon", n.number("epsilon", 1e-5)}}));
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

/// Whether a node drops is the run's decision, not the file's: exporters lose the training flag of attention dropout.
void dropout(NodeImport& n) {
  double ratio = n.number("ratio", 0.5);
  if (n.version() >= 12) ratio = n.has(1) ? n.known_number(1, "the ratio") : 0.5;
  const bool drops = n.training() && ratio > 0 && is_float(n.type(0).dtype);
  if (n.reads(1)) {
    if (drops) n.unsupported("reading the mask (second result) is not supported");
    n.set(1, n.emit("ConstantOfShape", {}, {{"shape", n.shape(0)}, {"dtype", std::string("bool")}, {"value", 1.0}}));
  } else if (n.wants(1)) {
    n.declare(1, {DType::Bool, n.shape(0)});
  }
  if (!drops) return n.set(0, n.input(0));
  n.set(0, n.emit("Dropout", {n.input(0)}, {{"ratio", ratio}, {"stream", n.next_stream()}}));
}

constexpr ImportRow kRows[] = {
    {kDefaultDomain, "BatchNormalization", 1, kNewest, batch_norm},
    {kDefaultDomain, "InstanceNormalization", 1, kNewest, instance_norm},
    {kDefaultDomain, "GroupNormalization", 18, kNewest, group_norm},
    {kDefaultDomain, "LayerNormalization", 1, kNewest, layer_norm},
    {kDefaultDomain, "RMSNormalization", 1, kNewest, rms_norm},
    {kDefaultDomain, "LRN", 1, kNewest, local_response},
    {kDefaultDomain, "Dropout", 1, kNewest, dropout},
};

}  // namespace

std::span<const ImportRow> normalization_rows() { return kRows; }

}  // namespace rehearsal::formats
