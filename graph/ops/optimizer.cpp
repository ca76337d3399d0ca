// Updates of parameters: operands (parameter, gradient, step or none, state...), results (parameter, state...).

#include "base/error.hpp"
#include "graph/master_weights.hpp"
#include "graph/noise_scale.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

constexpr std::string_view kNotDifferentiated = "it belongs to the update";
constexpr std::size_t kFirstState = 3;

void require_counted(const NodeView& node, std::size_t operand) {
  if (node.has_input(operand)) require_step(node, operand);
}

void require_scalar(const NodeView& node, std::size_t operand) {
  if (node.input(operand) != TensorType{DType::F64, {}}) throw BadInput("operand " + std::to_string(operand) + " must be an f64 scalar");
}

/// Of the type and the shape of operand 0.
void require_like_first(const NodeView& node, std::size_t operand) {
  if (node.input(operand) == node.input(0)) return;
  require_same_type(node, 0, operand);
  throw BadInput("operand " + std::to_string(operand) + " has shape " + to_text(node.input(operand).shape) +
                 ", it must be like operand 0 " + to_text(node.input(0).shape));
}

bool has_16_bits(DType type) { return type == DType::F16 || type == DType::BF16; }

/// Like the parameter, or as passes in 16 bits make it for a parameter in f32.
void require_gradient(const NodeView& node) {
  const auto &parameter = node.input(0), &gradient = node.input(1);
  const bool of_passes = parameter.dtype == DType::F32 && has_16_bits(gradient.dtype) && gradient.shape == parameter.shape;
  if (!of_passes) require_like_first(node, 1);
}

/// The parameter as passes in 16 bits read it.
TensorType rounded_parameter(const NodeView& node, std::string_view type_name) {
  const auto type = dtype_from_name(type_name);
  if (!type || !has_16_bits(*type))
    throw BadInput("attribute '" + std::string(kRoundedTo) + "' is \"" + std::string(type_name) + "\", it must be f16 or bf16");
  if (node.input(0).dtype != DType::F32)
    throw BadInput("attribute '" + std::string(kRoundedTo) + "' is for parameters in f32, this one is in " +
                   std::string(name(node.input(0).dtype)));
  return {*type, node.input(0).shape};
}

/// (parameter, gradient, step, state...) -> (parameter, state..., with kRoundedTo the parameter in 16 bits)
std::vector<TensorType> infer_update(const NodeView& node) {
  require_inputs(node, 2, node.inputs.size());
  require_all(node, kFirstState);
  require_counted(node, 2);
  require_gradient(node);
  std::vector<TensorType> results = {node.input(0)};
  for (std::size_t i = kFirstState; i < node.inputs.size(); ++i) {
    require_like_first(node, i);
    results.push_back(node.input(i));
  }
  if (const auto type = node.attributes.text(kRoundedTo, ""); !type.empty()) results.push_back(rounded_parameter(node, type));
  return results;
}

/// (parameter, gradient, squared norm of each, state...) -> (parameter, state...)
std::vector<TensorType> infer_scaled_update(const NodeView& node) {
  require_inputs(node, 4, 5);
  require_all(node);
  require_like_first(node, 1);
  require_scalar(node, 2);
  require_scalar(node, 3);
  if (node.inputs.size() > 4) require_like_first(node, 4);
  return std::vector<TensorType>(node.inputs.size() - 3, node.input(0));
}

/// (parameter, gradient, step, squared norm of the gradient, state...) -> (parameter, state...)
std::vector<TensorType> infer_normed_update(const NodeView& node) {
  require_inputs(node, 6, 6);
  require_counted(node, 2);
  require_scalar(node, 3);
  for (const std::size_t i : {1, 4, 5}) require_like_first(node, i);
  return std::vector<TensorType>(3, node.input(0));
}

/// (parameter, gradient, step, state..., a number) -> (parameter, state...)
std::vector<TensorType> infer_averaged_update(const NodeView& node) {
  if (node.inputs.size() < 5) throw BadInput("has " + std::to_string(node.inputs.size()) + " operands, it needs a state and a number");
  require_inputs(node, 2, 6);
  require_all(node, kFirstState);
  require_counted(node, 2);
  const std::size_t number = node.inputs.size() - 1;
  require_scalar(node, number);
  for (std::size_t i = 1; i < number; ++i)
    if (i != 2) require_like_first(node, i);
  return std::vector<TensorType>(number - 2, node.input(0));
}

/// (sum of weights, highest rate) -> (share of this step, both)
std::vector<TensorType> infer_share(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_scalar(node, 0);
  require_scalar(node, 1);
  return std::vector<TensorType>(3, node.input(0));
}

/// (average, mean of squares, step) -> average
std::vector<TensorType> infer_average(const NodeView& node) {
  require_inputs(node, 3, 3);
  require_like_first(node, 1);
  require_counted(node, 2);
  return {node.input(0)};
}

/// (gradient, variance) or (gradient, that of rows, of columns, the mean of that of rows) -> direction
std::vector<TensorType> infer_direction(const NodeView& node) {
  require_inputs(node, 2, 4);
  if (node.inputs.size() == 2) {
    require_like_first(node, 1);
    return {node.input(0)};
  }
  const auto types = infer_broadcast(node);
  if (types.front() != node.input(0)) throw BadInput("operands 1 to 3 must broadcast to the gradient " + to_text(node.input(0).shape));
  return types;
}

/// (parameter, direction, step, squared norm of each) -> parameter
std::vector<TensorType> infer_clipped_update(const NodeView& node) {
  require_inputs(node, 5, 5);
  require_like_first(node, 1);
  require_counted(node, 2);
  require_scalar(node, 3);
  require_scalar(node, 4);
  return {node.input(0)};
}

/// Two operands of one type, and that type as many times.
template <std::size_t kResults>
std::vector<TensorType> infer_pair(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_like_first(node, 1);
  return std::vector<TensorType>(kResults, node.input(0));
}

/// (matrix, a number of all matrices) -> matrix
std::vector<TensorType> infer_clipped_direction(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_float(node, 0);
  require_scalar(node, 1);
  return {node.input(0)};
}

/// (matrices, squared norm of each) -> matrices
std::vector<TensorType> infer_normalized(const NodeView& node) {
  require_inputs(node, 2, 2);
  const auto types = infer_broadcast(node);
  if (types.front() != node.input(0)) throw BadInput("operand 1 must broadcast to operand 0 " + to_text(node.input(0).shape));
  return types;
}

std::vector<TensorType> infer_norm(const NodeView& node) {
  require_inputs(node, 1, 1);
  require_float(node, 0);
  return {{DType::F64, {}}};
}

SplitRule labels_norm(const NodeView& node) {
  const Shape& full = node.input(0).shape;
  return {{aligned_labels(full, full)}, {unlabelled(node.output().shape)}, std::vector<LabelKind>(full.size(), LabelKind::Sum)};
}

std::vector<TensorType> infer_norms_of_parts(const NodeView& node) {
  require_inputs(node, 1, 1);
  require_float(node, 0);
  const auto samples = node.attributes.integer("samples", 0);
  if (samples < 1) throw BadInput("attribute 'samples' is " + std::to_string(samples) + ", it must be at least 1");
  return {{DType::F64, {samples}}};
}

constexpr std::int64_t kProductsOfTwo = 3;  ///< of a and b: a a, a b, b b

/// The shape of each of the two that operand 0 is.
Shape shape_of_each(const NodeView& node) {
  require_float(node, 0);
  const Shape& both = node.input(0).shape;
  if (both.empty() || both[0] != 2) throw BadInput("operand 0 has shape " + to_text(both) + ", it must begin with 2");
  return {both.begin() + 1, both.end()};
}

/// (both vectors) -> products
std::vector<TensorType> infer_products_of_two(const NodeView& node) {
  require_inputs(node, 1, 1);
  (void)shape_of_each(node);
  return {{DType::F64, {kProductsOfTwo}}};
}

/// (both vectors, products) -> vector
std::vector<TensorType> infer_adaptive_sum(const NodeView& node) {
  require_inputs(node, 2, 2);
  if (node.input(1) != TensorType{DType::F64, {kProductsOfTwo}}) throw BadInput("operand 1 must be three numbers in f64");
  return {{node.input(0).dtype, shape_of_each(node)}};
}

/// Whole: what divides a vector is known where its products are summed.
SplitRule labels_of_whole(const NodeView& node) {
  SplitRule rule;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) rule.inputs.push_back(unlabelled(node.input(i).shape));
  rule.outputs.push_back(unlabelled(node.output().shape));
  return rule;
}

template <int kFlops>
OpSchema update(std::string_view name, std::string_view description, std::vector<TensorType> (*infer)(const NodeView&) = infer_update,
                Trait traits = Trait::Elementwise | Trait::InPlace) {
  return {.name = name,
          .description = description,
          .family = CostFamily::Optimizer,
          .traits = traits,
          .infer = infer,
          .labels = elementwise_labels,
          .work = work_per_result<kFlops>,
          .no_gradient = kNotDifferentiated};
}

const OpSchema kOptimizerRows[] = {
    update<6>("SgdUpdate", "Stochastic gradient descent with momentum, Nesterov momentum and weight decay."),
    update<14>("AdamUpdate", "Adam (Kingma, Ba 2015); 'decoupled' 1: AdamW (Loshchilov, Hutter 2019)."),
    update<18>("NadamUpdate", "Adam with Nesterov momentum, whose rate rises to beta1 with the steps (Dozat 2016)."),
    update<10>("RmspropUpdate", "RMSprop with the root before epsilon, and momentum."),
    update<7>("AdagradUpdate", "Adagrad (Duchi, Hazan, Singer 2011)."),
    update<12>("AdadeltaUpdate", "Adadelta (Zeiler 2012): the root of averaged squares of steps over that of gradients."),
    update<9>("AdamaxUpdate", "Adam over the largest gradient, which fades (Kingma, Ba 2015, algorithm 2)."),
    update<15>("RadamUpdate", "Adam whose second moment counts when it has seen enough steps (Liu et al. 2020)."),
    update<8>("RpropUpdate", "Steps of every element's own length, which grows while signs stay (Riedmiller, Braun 1993)."),
    update<9>("AsgdUpdate", "SGD with a falling rate, whose average is kept (Polyak, Juditsky 1992)."),
    update<8>("LarsUpdate", "Layer-wise adaptive rate scaling (You, Gitman, Ginsburg 2017): momentum over the scaled gradient.",
              infer_scaled_update),
    update<14>("LambDirection", "Direction of LAMB (You et al. 2020): Adam's plus the decay; result 0 is the direction, not the parameter.",
               infer_update, Trait::Elementwise),
    update<3>("LambUpdate", "parameter - lr (|parameter| / |direction|) direction.", infer_scaled_update),
    update<8>(
        "NovogradUpdate",
        "NovoGrad (Ginsburg et al. 2019, algorithm 1): the second moment is one number per tensor, kept in every element of its state.",
        infer_normed_update),
    update<7>("LionUpdate", "The sign of a momentum (Chen et al. 2023, algorithm 2), with decoupled weight decay."),
    update<9>("ScheduleFreeSgdUpdate", "Schedule-free SGD (Defazio et al. 2024, algorithm 1): the parameter is y, the state z.",
              infer_averaged_update),
    update<17>("ScheduleFreeAdamwUpdate",
               "Schedule-free AdamW (Defazio et al. 2024, section 4): the parameter is y, the state z and the "
               "second moment.",
               infer_averaged_update),
    update<4>("ScheduleFreeShare", "The share of a step's z in the average: its rate to a power, over the sum of all steps'.", infer_share,
              Trait::None),
    update<4>("AdafactorAverage", "average + (mean - average) step^-decay_rate (Shazeer, Stern 2018, algorithm 4).", infer_average),
    update<6>("AdafactorDirection",
              "The gradient over the root of its second moment, given as it is or by rows and columns (Shazeer, Stern 2018, algorithm 4).",
              infer_direction, Trait::Elementwise),
    update<4>("AdafactorUpdate", "A step along a direction, clipped by its root mean square and scaled by the parameter's.",
              infer_clipped_update),
    update<5>("MuonMomentum", "(gradient, momentum) to the direction of Muon (Jordan et al. 2024), and the new momentum.", infer_pair<2>,
              Trait::Elementwise),
    update<1>("DivideByNorm", "x over the root of a sum of squares, or over `least` where that is more.", infer_normalized,
              Trait::Elementwise),
    update<3>("LinearCombination", "alpha x + beta y.", infer_pair<1>),
    update<5>("MuonUpdate", "(1 - lr weight_decay) parameter - lr scale direction.", infer_pair<1>),
    update<14>("SoapDirection",
               "(momentum, gradient, step, second moment) of gradients turned into a basis, to Adam's direction there and the new second "
               "moment (Vyas et al. 2025, algorithm 3).",
               infer_update, Trait::Elementwise),
    update<3>(
        "FactorAverage",
        "(average, product, step): the average of products that come every interval-th step, the n-th with a share of 1 - min(decay, 1 "
        "- 1/n) (Martens, Grosse 2015, section 5).",
        infer_average),
    update<2>("DivergenceClip",
              "(direction, products of directions and gradients of all weights) to the direction times min(1, sqrt(clip / |products|) / "
              "lr) (Ba, Grosse, Martens 2017, section 5).",
              infer_clipped_direction, Trait::Elementwise),
    without_gradient("AdaptiveSumProducts", "Of two vectors a and b, the halves of x: a a, a b and b b, in f64.", CostFamily::Reduction,
                     {infer_products_of_two, labels_of_whole, work_per_operand<3>}, kNotDifferentiated),
    without_gradient("AdaptiveSum",
                     "(x, products) of two vectors a and b to (1 - a b / 2 a a) a + (1 - a b / 2 b b) b (Maleki et al. 2021).",
                     CostFamily::Optimizer, {infer_adaptive_sum, labels_of_whole, work_per_result<3>}, kNotDifferentiated),
    without_gradient("SquaredNorm", "Sum of squares of all elements, in f64.", CostFamily::Reduction,
                     {infer_norm, labels_norm, work_per_operand<2>}, kNotDifferentiated),
    {.name = kSquaresOfParts,
     .description = "Sum of squares of a sum over samples, of each part of them by itself where ranks and micro-batches have parts: by "
                    "sample, where a part begins, and 0 elsewhere.",
     .family = CostFamily::Reduction,
     .infer = infer_norms_of_parts,
     .labels = labels_norm,
     .work = work_per_operand<2>,
     .no_gradient = kNotDifferentiated,
     .sees_parts = true},
};

}  // namespace

std::span<const OpSchema> optimizer_ops() { return kOptimizerRows; }

}  // namespace rehearsal::graph
