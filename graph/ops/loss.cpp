// Losses as (sum over the batch, weight of the batch), so that parts of a batch add up exactly.

#include <string>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

const TensorType kScalar{DType::F64, {}};
constexpr int kFlopsOfLogit = 5;    ///< subtract the maximum, exponential, add, and the choice
constexpr int kFlopsOfElement = 4;  ///< difference, its function, add

constexpr std::size_t kTotalOfSum = 3, kTotalOfGradient = 4;  ///< operands of CrossEntropySum and CrossEntropyGrad

int class_axis(const NodeView& node) { return normalize_axis(node.attributes.integer("axis", 1), node.input(0).shape.size()); }

void require_labels(const TensorType& target, const Shape& expected, const std::string& operand) {
  if (!is_integer(target.dtype) || target.dtype == DType::Bool) {
    throw BadInput(operand + " is " + std::string(name(target.dtype)) + ", class labels must be integers");
  }
  if (target.shape != expected)
    throw BadInput(operand + " has shape " + to_text(target.shape) + ", it must be the logits' without the class axis, " +
                   to_text(expected));
}

Shape without(Shape shape, int axis) {
  shape.erase(shape.begin() + axis);
  return shape;
}

/// Class weights, where there are any: floating-point numbers, one a class.
void require_class_weights(const NodeView& node, std::size_t operand) {
  if (!node.has_input(operand)) return;
  require_float(node, operand);
  require_rank(node, operand, 1, 1);
}

void require_scores(const NodeView& node, std::size_t weights, std::size_t total) {
  require_float(node, 0);
  require_rank(node, 0, 1, 8);
  const int axis = class_axis(node);
  const std::int64_t classes = node.input(0).shape[static_cast<std::size_t>(axis)];
  require_labels(node.input(1), without(node.input(0).shape, axis), "operand 1");
  require_class_weights(node, weights);
  if (node.has_input(weights) && node.input(weights).shape != Shape{classes}) {
    throw BadInput("operand " + std::to_string(weights) + " has shape " + to_text(node.input(weights).shape) +
                   ", class weights must have shape " + to_text(Shape{classes}));
  }
  if (node.has_input(total) && node.input(total) != TensorType{DType::F64, node.input(1).shape})
    throw BadInput("operand " + std::to_string(total) + " is no " + std::string(name(DType::F64)) + to_text(node.input(1).shape) +
                   ", the logarithm of the sum of exponentials of every label's scores");
}

/// What a loss of every element is multiplied with: the gradient of the sum.
void require_factor(const NodeView& node, std::size_t operand) {
  if (node.input(operand) == kScalar) return;
  throw BadInput("operand " + std::to_string(operand) + " is " + std::string(name(node.input(operand).dtype)) +
                 to_text(node.input(operand).shape) + ", it must be an f64 scalar: the gradient of the sum");
}

std::vector<TensorType> infer_cross_entropy(const NodeView& node) {
  require_inputs(node, 2, 4);
  require_scores(node, 2, kTotalOfSum);
  return {kScalar};
}

std::vector<TensorType> infer_cross_entropy_gradient(const NodeView& node) {
  require_inputs(node, 3, 5);
  require_scores(node, 3, kTotalOfGradient);
  require_factor(node, 2);
  return {node.input(0)};
}

std::vector<TensorType> infer_log_sum_exp(const NodeView& node) {
  require_inputs(node, 1, 1);
  require_float(node, 0);
  require_rank(node, 0, 1, 8);
  return {{DType::F64, without(node.input(0).shape, class_axis(node))}};
}

SplitRule labels_log_sum_exp(const NodeView& node) {
  const Shape& scores = node.input(0).shape;
  const auto axis = static_cast<std::size_t>(class_axis(node));
  SplitRule rule{{aligned_labels(scores, scores)}, {{}}, {}, {}};
  for (std::size_t d = 0; d < scores.size(); ++d) {
    rule.kinds.push_back(d == axis ? LabelKind::LogSumExp : LabelKind::Parallel);
    if (d != axis) rule.outputs[0].push_back(rule.inputs[0][d]);
  }
  return rule;
}

std::vector<TensorType> infer_label_weight(const NodeView& node) {
  require_inputs(node, 1, 2);
  require_labels(node.input(0), node.input(0).shape, "operand 0");
  require_class_weights(node, 1);
  return {kScalar};
}

/// Labels of scores: those of the target in order, the class axis last. `kind` is that of all dimensions; without a total over all classes
/// the class axis is needed whole. Kernels look up class weights by the number of the class, so these stay whole.
SplitRule class_labels(const NodeView& node, LabelKind kind, bool has_total) {
  const Shape& scores = node.input(0).shape;
  const auto axis = static_cast<std::size_t>(class_axis(node));
  SplitRule rule;
  rule.inputs.assign(node.inputs.size(), {});
  rule.inputs[0] = unlabelled(scores);
  for (std::size_t d = 0, label = 0; d < scores.size(); ++d) {
    if (d == axis) continue;
    rule.inputs[0][d] = whole(static_cast<int>(label), scores[d]);
    rule.inputs[1].push_back(whole(static_cast<int>(label), scores[d]));
    ++label;
  }
  const std::size_t classes = scores.size() - 1;
  rule.inputs[0][axis] = whole(static_cast<int>(classes), scores[axis]);
  for (std::size_t i = 2; i < node.inputs.size(); ++i) rule.inputs[i] = unlabelled(node.has_input(i) ? node.input(i).shape : Shape{});
  if (has_total) rule.inputs.back() = rule.inputs[1];
  rule.kinds.assign(classes, kind);
  rule.kinds.push_back(has_total ? kind : LabelKind::Opaque);
  rule.ranged = {static_cast<std::int16_t>(classes)};
  return rule;
}

SplitRule labels_cross_entropy(const NodeView& node) {
  SplitRule rule = class_labels(node, LabelKind::Sum, node.has_input(kTotalOfSum));
  rule.outputs = {{}};
  return rule;
}

SplitRule labels_cross_entropy_gradient(const NodeView& node) {
  SplitRule rule = class_labels(node, LabelKind::Parallel, node.has_input(kTotalOfGradient));
  rule.outputs = {rule.inputs[0]};
  return rule;
}

/// Every dimension of operand 0 is summed away; operands of its shape share its labels.
SplitRule labels_sum(const NodeView& node) {
  const Shape& full = node.input(0).shape;
  SplitRule rule;
  for (const auto& type : node.inputs)
    rule.inputs.push_back(type && type->shape == full ? aligned_labels(full, full) : unlabelled(type ? type->shape : Shape{}));
  rule.outputs = {{}};
  rule.kinds.assign(full.size(), LabelKind::Sum);
  return rule;
}

/// The exponentials are LogSumExp's.
Work work_of_sum(const NodeView& node) {
  if (!node.has_input(kTotalOfSum) || node.attributes.number("label_smoothing", 0) != 0) return work_per_operand<kFlopsOfLogit>(node);
  const auto labels = static_cast<double>(element_count(node.input(1).shape));
  const auto score = static_cast<double>(size_of(node.input(0).dtype));
  return {Flops(2 * labels), size_of(node.input(1)) + size_of(node.input(kTotalOfSum)) + Bytes(labels * score)};
}

/// Labels with class 0 for those that are ignored, and which those are (None: none).
struct CountedLabels {
  TensorId labels = TensorId::None, ignored = TensorId::None;
};

CountedLabels counted_labels(GradientContext& c, TensorId target) {
  CountedLabels counted;
  counted.labels = c.type(target).dtype == DType::I64 ? target : c.emit1("Cast", {target}, {{"to", std::string(name(DType::I64))}});
  const auto none = c.constant(static_cast<double>(c.attributes().integer("ignore_index", -100)), DType::I64);
  counted.ignored = c.emit1("Equal", {counted.labels, none});
  counted.labels = c.emit1("Where", {counted.ignored, c.constant(0, DType::I64), counted.labels});
  return counted;
}

/// The gradient of class weights [classes]: `values`, one of every label, times the gradient of the result, added up by class.
TensorId by_class(GradientContext& c, const CountedLabels& counted, TensorId values, const TensorType& weights) {
  const TensorId kept = c.emit1("Where", {counted.ignored, c.constant(0, weights.dtype), values});
  const TensorId dy = c.emit1("Cast", {c.gradient_of_output()}, {{"to", std::string(name(weights.dtype))}});
  return c.emit1("GatherGrad", {c.emit1("Mul", {kept, dy}), counted.labels}, {{"axis", std::int64_t{0}}, {"shape", weights.shape}});
}

void gradient_label_weight(GradientContext& c) {
  if (!c.wants(1)) return;
  c.set(1, by_class(c, counted_labels(c, c.input(0)), c.constant(1, c.type(c.input(1)).dtype), c.type(c.input(1))));
}

/// -log p of each label, by class.
void gradient_class_weights(GradientContext& c) {
  if (c.attributes().number("label_smoothing", 0) != 0)
    throw Refusal("node '" + c.node().name + "': class weights together with label smoothing are not trained");
  const TensorId scores = c.input(0);
  const std::int64_t axis = normalize_axis(c.attributes().integer("axis", 1), c.type(scores).shape.size());
  const bool ready = c.attributes().integer("log_probabilities", 0) != 0;
  const TensorId log_p = ready ? scores : c.emit1("LogSoftmax", {scores}, {{"axis", axis}});
  const CountedLabels counted = counted_labels(c, c.input(1));
  const Shape shape = c.type(c.input(1)).shape;
  Shape column = shape;
  column.insert(column.begin() + axis, 1);
  const TensorId picked = c.emit1("GatherElements", {log_p, c.emit1("Reshape", {counted.labels}, {{"shape", column}})}, {{"axis", axis}});
  c.set(2, by_class(c, counted, c.emit1("Neg", {c.emit1("Reshape", {picked}, {{"shape", shape}})}), c.type(c.input(2))));
}

void gradient_cross_entropy(GradientContext& c) {
  if (c.wants(2)) gradient_class_weights(c);
  if (!c.wants(0)) return;
  // Operand 3, the total, is a function of the scores: CrossEntropyGrad is the derivative through both.
  std::vector<TensorId> operands = {c.input(0), c.input(1), c.gradient_of_output(), c.input(2), c.input(kTotalOfSum)};
  while (operands.back() == TensorId::None) operands.pop_back();
  c.set(0, c.emit1("CrossEntropyGrad", std::move(operands), c.attributes()));
}

void require_prediction_and_target(const NodeView& node) {
  require_float(node, 0);
  require_same_type(node, 0, 1);
  if (node.input(0).shape != node.input(1).shape) {
    throw BadInput("the target has shape " + to_text(node.input(1).shape) + ", the prediction " + to_text(node.input(0).shape) +
                   "; they must be equal");
  }
}

std::vector<TensorType> infer_element_loss(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_prediction_and_target(node);
  return {kScalar};
}

std::vector<TensorType> infer_element_loss_gradient(const NodeView& node) {
  require_inputs(node, 3, 3);
  require_prediction_and_target(node);
  require_factor(node, 2);
  return {node.input(0)};
}

/// "SquaredErrorSum" is differentiated by "SquaredErrorGrad".
void gradient_element_loss(GradientContext& c) {
  const std::string_view sum = schema(c.node()).name;
  const std::string row = std::string(sum.substr(0, sum.size() - std::string_view("Sum").size())) + "Grad";
  if (c.wants(1)) throw Refusal("node '" + c.node().name + "': the target of a loss is not trained");
  if (c.wants(0)) c.set(0, c.emit1(row, {c.input(0), c.input(1), c.gradient_of_output()}, c.attributes()));
}

OpSchema element_loss(std::string_view name, std::string_view description) {
  return with_gradient(name, description, CostFamily::Reduction, {infer_element_loss, labels_sum, work_per_operand<kFlopsOfElement>},
                       gradient_element_loss);
}

OpSchema element_loss_gradient(std::string_view name, std::string_view description) {
  return {.name = name,
          .description = description,
          .family = CostFamily::Elementwise,
          .traits = Trait::Elementwise,
          .infer = infer_element_loss_gradient,
          .labels = elementwise_labels,
          .work = work_per_operand<kFlopsOfElement>,
          .no_gradient = kSecondDerivative};
}

const OpSchema kLossRows[] = {
    without_gradient("LogSumExp", "Logarithm of the sum over the attribute axis of exponentials, in f64.", CostFamily::Reduction,
                     {infer_log_sum_exp, labels_log_sum_exp, work_per_operand<kFlopsOfLogit>}, "it is part of CrossEntropyGrad"),
    with_gradient("CrossEntropySum",
                  "Sum over all labels t of w[t] (total - x[t]), ignored labels left out; operands x, t, w, total = LogSumExp(x). Without "
                  "total it is computed here, or 0 where 'log_probabilities' is 1: x is log softmax already.",
                  CostFamily::Reduction, {infer_cross_entropy, labels_cross_entropy, work_of_sum}, gradient_cross_entropy),
    without_gradient("CrossEntropyGrad", "Derivative of CrossEntropySum by the scores, times operand 2.", CostFamily::Elementwise,
                     {infer_cross_entropy_gradient, labels_cross_entropy_gradient, work_per_operand<kFlopsOfLogit>}),
    with_gradient("CrossEntropyWeight", "Sum of the class weights of all labels that are not ignored (their count without class weights).",
                  CostFamily::Reduction, {infer_label_weight, labels_sum}, gradient_label_weight),
    element_loss("SquaredErrorSum", "Sum of (x - t)^2."),
    element_loss_gradient("SquaredErrorGrad", "2 (x - t), times operand 2."),
    element_loss("AbsoluteErrorSum", "Sum of |x - t|."),
    element_loss_gradient("AbsoluteErrorGrad", "sign(x - t), times operand 2."),
    element_loss("HuberSum", "Sum of Huber's function of x - t: d^2/2 up to |d| = 'delta', then delta (|d| - delta/2)."),
    element_loss_gradient("HuberGrad", "x - t clipped to 'delta', times operand 2."),
    element_loss("BceWithLogitsSum", "Sum of the binary cross-entropy of sigmoid(x) and t: max(x,0) - x t + log(1 + exp(-|x|))."),
    element_loss_gradient("BceWithLogitsGrad", "sigmoid(x) - t, times operand 2."),
    element_loss("KlDivergenceSum", "Sum of t (log t - x) for log-probabilities x; terms with t = 0 are 0."),
    element_loss_gradient("KlDivergenceGrad", "-t, times operand 2."),
};

}  // namespace

std::span<const OpSchema> loss_ops() { return kLossRows; }

}  // namespace rehearsal::graph
