#include "graph/losses.hpp"

#include "base/error.hpp"
#include "graph/training.hpp"

namespace rehearsal::graph {
namespace {

constexpr double kDiceSmoothing = 1e-5;  ///< Milletari, Navab, Ahmadi, "V-Net" (2016), with smoothing in numerator and denominator

int class_axis_of(const TensorType& prediction) { return prediction.shape.size() == 3 ? 2 : 1; }

TensorType label_type(const TensorType& prediction) {
  if (prediction.shape.size() < 2) {
    throw BadInput("the model's output has shape " + to_text(prediction.shape) + "; a loss over classes needs at least [batch, classes]");
  }
  Shape shape = prediction.shape;
  shape.erase(shape.begin() + class_axis_of(prediction));
  return {DType::I64, shape};
}

TensorType same_type(const TensorType& prediction) {
  if (!is_float(prediction.dtype))
    throw BadInput("the model's output is " + std::string(name(prediction.dtype)) + "; the loss needs a floating-point output");
  return prediction;
}

TensorId scalar(GraphBuilder& builder, std::string_view label, double value, DType dtype) {
  return builder.add_constant(builder.fresh_name(label), Value::scalar(value, dtype));
}

TensorId build_cross_entropy(GraphBuilder& builder, TensorId prediction, TensorId target) {
  return add_cross_entropy(builder, {.scores = prediction, .target = target, .axis = class_axis_of(builder.type(prediction))});
}

TensorId build_nll(GraphBuilder& builder, TensorId prediction, TensorId target) {
  return add_cross_entropy(
      builder, {.scores = prediction, .target = target, .axis = class_axis_of(builder.type(prediction)), .log_probabilities = true});
}

/// The mean over all elements: their number is known, so it is a constant of the graph.
template <const char* kRow>
TensorId build_mean(GraphBuilder& builder, TensorId prediction, TensorId target) {
  const TensorId sum = builder.add1(kRow, {prediction, target});
  const auto count = static_cast<double>(element_count(builder.type(prediction).shape));
  return builder.add1("Div", {sum, scalar(builder, "loss_count", count, DType::F64)});
}

constexpr char kSquaredError[] = "SquaredErrorSum";
constexpr char kAbsoluteError[] = "AbsoluteErrorSum";
constexpr char kHuber[] = "HuberSum";
constexpr char kBce[] = "BceWithLogitsSum";
constexpr char kDivergence[] = "KlDivergenceSum";

TensorId build_dice(GraphBuilder& builder, TensorId prediction, TensorId target) {
  const TensorType type = builder.type(prediction);
  if (type.shape.size() < 3)
    throw BadInput("the model's output has shape " + to_text(type.shape) + "; dice needs [batch, channels, space...]");
  std::vector<std::int64_t> space;
  for (std::size_t d = 2; d < type.shape.size(); ++d) space.push_back(static_cast<std::int64_t>(d));
  const auto over_space = [&](TensorId x) { return builder.add1("ReduceSum", {x}, {{"axes", space}, {"keepdims", std::int64_t{0}}}); };
  const TensorId smoothing = scalar(builder, "dice_smoothing", kDiceSmoothing, type.dtype);
  const TensorId p = builder.add1("Sigmoid", {prediction});
  const TensorId both = over_space(builder.add1("Mul", {p, target}));
  const TensorId numerator = builder.add1("Add", {builder.add1("Add", {both, both}), smoothing});
  const TensorId denominator = builder.add1("Add", {builder.add1("Add", {over_space(p), over_space(target)}), smoothing});
  const TensorId ratio = builder.add1("Div", {numerator, denominator});
  const TensorId loss = builder.add1("Sub", {scalar(builder, "dice_one", 1, type.dtype), ratio});
  const TensorId wide = builder.add1("Cast", {loss}, {{"to", std::string(name(DType::F64))}});
  const TensorId sum = builder.add1("ReduceSum", {wide}, {{"axes", std::vector<std::int64_t>{0, 1}}, {"keepdims", std::int64_t{0}}});
  const auto count = static_cast<double>(type.shape[0] * type.shape[1]);
  return builder.add1("Div", {sum, scalar(builder, "loss_count", count, DType::F64)});
}

constexpr LossRow kLossesRows[] = {
    {"cross-entropy", "softmax cross-entropy of logits; class axis 1, the last for rank 3; label -100 is ignored; mean over the others",
     label_type, build_cross_entropy},
    {"nll", "as cross-entropy, of log-probabilities", label_type, build_nll},
    {"mse", "mean of the squared differences", same_type, build_mean<kSquaredError>},
    {"l1", "mean of the absolute differences", same_type, build_mean<kAbsoluteError>},
    {"huber", "mean of Huber's function of the differences, delta 1", same_type, build_mean<kHuber>},
    {"bce", "binary cross-entropy of logits, mean over all elements", same_type, build_mean<kBce>},
    {"dice", "1 - (2 sum(pt) + 1e-5) / (sum(p) + sum(t) + 1e-5), p = sigmoid(output), sums over space, mean over samples and channels",
     same_type, build_dice},
    {"kl", "t (log t - x) of log-probabilities x, mean over all elements", same_type, build_mean<kDivergence>},
};

}  // namespace

std::span<const LossRow> loss_table() { return kLossesRows; }

TensorId add_cross_entropy(GraphBuilder& builder, const CrossEntropy& loss, LossReduction reduction) {
  std::vector<TensorId> operands = {loss.scores, loss.target}, weight_operands = {loss.target};
  if (loss.class_weights != TensorId::None) {
    operands.push_back(loss.class_weights);
    weight_operands.push_back(loss.class_weights);
  }
  const Attributes attributes = {{"axis", std::int64_t{loss.axis}},
                                 {"ignore_index", loss.ignore_index},
                                 {"label_smoothing", loss.label_smoothing},
                                 {"log_probabilities", std::int64_t{loss.log_probabilities}}};
  if (!loss.log_probabilities) {
    operands.resize(3, TensorId::None);
    operands.push_back(builder.add1("LogSumExp", {loss.scores}, {{"axis", std::int64_t{loss.axis}}}));
  }
  const TensorId sum = builder.add1("CrossEntropySum", std::move(operands), attributes);
  if (reduction == LossReduction::Sum) return sum;
  const TensorId weight = builder.add1("CrossEntropyWeight", std::move(weight_operands), {{"ignore_index", loss.ignore_index}});
  return builder.add1("Div", {sum, weight});
}

}  // namespace rehearsal::graph
