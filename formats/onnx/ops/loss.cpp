// Losses inside a graph.

#include "formats/onnx/ops/rows.hpp"
#include "graph/losses.hpp"

namespace rehearsal::formats {
namespace {

using graph::TensorId;

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
  return n.emit("Where", {counts, n.scalar(0, type), loss});
}

void cross_entropy(NodeImport& n) {
  const bool log_probabilities = n.op() == "NegativeLogLikelihoodLoss";
  const std::string reduction = n.text("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    n.fail("reduction is '" + reduction + "', it must be mean, sum or none");
  // without ignore_index no label is ignored: none is this small
  const std::int64_t ignored = n.integer("ignore_index", std::int64_t{-1} << 31);
  TensorId log_p = n.input(0);
  if (n.wants(1) || (reduction == "none" && !log_probabilities)) log_p = n.emit("LogSoftmax", {n.input(0)}, {{"axis", std::int64_t{1}}});
  if (n.wants(1)) n.set(1, log_p);
  if (reduction == "none") return n.set(0, unreduced(n, log_p, ignored));
  graph::CrossEntropy loss{n.input(0), n.input(1), n.input_or_none(2), 1, ignored, 0, log_probabilities};
  const TensorId sum =
      graph::add_cross_entropy(n.builder(), loss, reduction == "sum" ? graph::LossReduction::Sum : graph::LossReduction::Mean);
  const DType type = n.type(0).dtype;
  n.set(0, type == DType::F64 ? sum : n.emit("Cast", {sum}, {{"to", std::string(name(type))}}));
}

constexpr ImportRow kRows[] = {
    {kDefaultDomain, "SoftmaxCrossEntropyLoss", 12, kNewest, cross_entropy},
    {kDefaultDomain, "NegativeLogLikelihoodLoss", 12, kNewest, cross_entropy},
};

}  // namespace

std::span<const ImportRow> loss_rows() { return kRows; }

}  // namespace rehearsal::formats
