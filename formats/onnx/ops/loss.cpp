// Losses inside a graph.

#include <charconv>
#include <numeric>

#include "formats/onnx/ops/import_families.hpp"
#include "graph/losses.hpp"

namespace rehearsal::formats {
namespace {

using graph::TensorId;

/// How much of every label goes to all classes: the operator has no word for it, the exporter's note of the call has.
double label_smoothing(const NodeImport& n) {
  if (!n.stands_for("aten.cross_entropy_loss.")) return 0;
  const auto arguments = n.source_arguments();  // (scores, target, weight, reduction, ignore_index, label_smoothing)
  double smoothing = 0;
  if (arguments.size() > 5) std::from_chars(arguments[5].data(), arguments[5].data() + arguments[5].size(), smoothing);
  return smoothing > 0 && smoothing <= 1 ? smoothing : 0;
}

/// -sum over the classes of w log p / classes: what smoothing adds a share of (Szegedy et al., arXiv 1512.00567, section 7).
TensorId over_all_classes(NodeImport& n, TensorId log_probabilities) {
  const graph::Shape shape = n.shape(0);
  TensorId weighted = log_probabilities;
  if (n.has(2)) {
    graph::Shape column(shape.size() - 1, 1);
    column.front() = shape[1];
    weighted = n.emit("Mul", {weighted, n.reshape(n.input(2), column)});
  }
  return n.emit("ReduceSum", {weighted},
                {{"axes", graph::Shape{1}}, {"keepdims", std::int64_t{0}}, {"scale", -1 / static_cast<double>(shape[1])}});
}

/// -w[t] log p[t] for each label, 0 where it is ignored.
TensorId unreduced(NodeImport& n, TensorId log_probabilities, std::int64_t ignored) {
  const DType type = n.type(0).dtype, index = n.type(1).dtype;
  graph::Shape column = n.shape(1);
  if (column.empty() || column.size() + 1 != n.rank(0))
    n.fail("labels of shape " + graph::to_text(column) + " do not fit scores of shape " + graph::to_text(n.shape(0)));
  column.insert(column.begin() + 1, 1);
  const TensorId counts = n.emit("Equal", {n.input(1), n.scalar(static_cast<double>(ignored), index)});
  const TensorId label = n.emit("Where", {counts, n.scalar(0, index), n.input(1)});
  const TensorId picked =
      n.reshape(n.emit("GatherElements", {log_probabilities, n.reshape(label, column)}, {{"axis", std::int64_t{1}}}), n.shape(1));
  TensorId loss = n.emit("Neg", {picked});
  if (n.has(2)) loss = n.emit("Mul", {loss, n.emit("Gather", {n.input(2), label}, {{"axis", std::int64_t{0}}})});
  if (const double smoothing = label_smoothing(n); smoothing != 0) {
    const TensorId kept = n.emit("Mul", {loss, n.scalar(1 - smoothing, type)});
    loss = n.emit("Add", {kept, n.emit("Mul", {over_all_classes(n, log_probabilities), n.scalar(smoothing, type)})});
  }
  return n.emit("Where", {counts, n.scalar(0, type), loss});
}

/// Probabilities as the target, which the operator does not take but torch.export writes: -sum of w t log p, by sample.
void soft_cross_entropy(NodeImport& n, const std::string& reduction) {
  const DType type = n.type(0).dtype;
  const graph::Shape shape = n.shape(0);
  const double classes = static_cast<double>(shape[1]), smoothing = label_smoothing(n);
  TensorId target = n.input(1);
  if (smoothing != 0) target = n.emit("Add", {n.emit("Mul", {target, n.scalar(1 - smoothing, type)}), n.scalar(smoothing / classes, type)});
  if (n.has(2)) {
    graph::Shape column(shape.size() - 1, 1);
    column.front() = shape[1];
    target = n.emit("Mul", {target, n.reshape(n.input(2), column)});
  }
  const TensorId log_p = n.emit("LogSoftmax", {n.input(0)}, {{"axis", std::int64_t{1}}});
  if (n.wants(1)) n.set(1, log_p);
  graph::Shape axes{1};
  double scale = -1;
  if (reduction != "none") {
    axes.resize(shape.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (reduction == "mean") scale = -classes / static_cast<double>(graph::element_count(shape));
  n.set(0, n.emit("ReduceSum", {n.emit("Mul", {log_p, target})}, {{"axes", axes}, {"keepdims", std::int64_t{0}}, {"scale", scale}}));
}

void cross_entropy(NodeImport& n) {
  const bool log_probabilities = n.op() == "NegativeLogLikelihoodLoss";
  const std::string reduction = n.text("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    n.fail("reduction is '" + reduction + "', it must be mean, sum or none");
  if (!log_probabilities && is_float(n.type(1).dtype) && n.shape(1) == n.shape(0) && n.rank(0) > 1) return soft_cross_entropy(n, reduction);
  // without ignore_index no label is ignored: none is this small
  const std::int64_t ignored = n.integer("ignore_index", std::int64_t{-1} << 31);
  TensorId log_p = n.input(0);
  if (n.wants(1) || (reduction == "none" && !log_probabilities)) log_p = n.emit("LogSoftmax", {n.input(0)}, {{"axis", std::int64_t{1}}});
  if (n.wants(1)) n.set(1, log_p);
  if (reduction == "none") return n.set(0, unreduced(n, log_p, ignored));
  graph::CrossEntropy loss{n.input(0), n.input(1), n.input_or_none(2), 1, ignored, label_smoothing(n), log_probabilities};
  const TensorId sum =
      graph::add_cross_entropy(n.builder(), loss, reduction == "sum" ? graph::LossReduction::Sum : graph::LossReduction::Mean);
  const DType type = n.type(0).dtype;
  n.set(0, type == DType::F64 ? sum : n.emit("Cast", {sum}, {{"to", std::string(name(type))}}));
}

constexpr ImportRow kLossRows[] = {
    {kDefaultDomain, "SoftmaxCrossEntropyLoss", 12, kNewest, cross_entropy},
    {kDefaultDomain, "NegativeLogLikelihoodLoss", 12, kNewest, cross_entropy},
};

}  // namespace

std::span<const ImportRow> loss_rows() { return kLossRows; }

}  // namespace rehearsal::formats
