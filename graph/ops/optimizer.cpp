// Updates of parameters: operands (parameter, gradient, step or none, state...), results (parameter, state...).

#include "base/error.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

constexpr std::string_view kNotDifferentiated = "it belongs to the update";
constexpr std::size_t kFirstState = 3;

void require_step(const NodeView& node, std::size_t operand) {
  if (!node.has_input(operand)) return;
  const TensorType expected{DType::I64, {}};
  if (node.input(operand) != expected)
    throw BadInput("operand " + std::to_string(operand) + " must be an int64 scalar, the number of the step from 1");
}

void require_scalar(const NodeView& node, std::size_t operand) {
  if (node.input(operand) != TensorType{DType::F64, {}}) throw BadInput("operand " + std::to_string(operand) + " must be an f64 scalar");
}

/// (parameter, gradient, step, state...) -> (parameter, state...)
std::vector<TensorType> infer_update(const NodeView& node) {
  require_inputs(node, 2, node.inputs.size());
  require_step(node, 2);
  std::vector<TensorType> results = {node.input(0)};
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (i == 2) continue;
    if (node.input(i) != node.input(0))
      throw BadInput("operand " + std::to_string(i) + " has shape " + to_text(node.input(i).shape) + ", it must be like the parameter " +
                     to_text(node.input(0).shape));
    if (i >= kFirstState) results.push_back(node.input(i));
  }
  return results;
}

/// (parameter, gradient, squared norm of each, state...) -> (parameter, state...)
std::vector<TensorType> infer_scaled_update(const NodeView& node) {
  require_inputs(node, 4, 5);
  require_same_type(node, 0, 1);
  require_scalar(node, 2);
  require_scalar(node, 3);
  return std::vector<TensorType>(node.inputs.size() - 3, node.input(0));
}

/// (parameter, gradient, step, squared norm of the gradient, state...) -> (parameter, state...)
std::vector<TensorType> infer_normed_update(const NodeView& node) {
  require_inputs(node, 6, 6);
  require_step(node, 2);
  require_scalar(node, 3);
  for (const std::size_t i : {1, 4, 5}) require_same_type(node, 0, i);
  return std::vector<TensorType>(3, node.input(0));
}

std::vector<TensorType> infer_norm(const NodeView& node) {
  require_inputs(node, 1, 1);
  require_float(node, 0);
  return {{DType::F64, {}}};
}

SplitRule labels_norm(const NodeView& node) {
  const Shape& full = node.input(0).shape;
  return {{aligned_labels(full, full)}, {{}}, std::vector<LabelKind>(full.size(), LabelKind::Sum)};
}

template <int kFlops>
Work work_per_parameter(const NodeView& node) {
  return elementwise_work(node, kFlops);
}

Work work_norm(const NodeView& node) { return {Flops(2 * static_cast<double>(element_count(node.input(0).shape))), traffic(node)}; }

template <int kFlops>
OpSchema update(std::string_view name, std::string_view description, std::vector<TensorType> (*infer)(const NodeView&) = infer_update,
                Trait traits = Trait::Elementwise | Trait::InPlace) {
  return {.name = name,
          .description = description,
          .family = CostFamily::Optimizer,
          .traits = traits,
          .infer = infer,
          .labels = elementwise_labels,
          .work = work_per_parameter<kFlops>,
          .no_gradient = kNotDifferentiated};
}

const OpSchema kOptimizerRows[] = {
    update<6>("SgdUpdate", "Stochastic gradient descent with momentum, Nesterov momentum and weight decay."),
    update<14>("AdamUpdate", "Adam (Kingma, Ba 2015); 'decoupled' 1: AdamW (Loshchilov, Hutter 2019)."),
    update<18>("NadamUpdate", "Adam with Nesterov momentum, whose rate rises to beta1 with the steps (Dozat 2016)."),
    update<10>("RmspropUpdate", "RMSprop with the root before epsilon, and momentum."),
    update<7>("AdagradUpdate", "Adagrad (Duchi, Hazan, Singer 2011)."),
    update<8>("LarsUpdate", "Layer-wise adaptive rate scaling (You, Gitman, Ginsburg 2017): momentum over the scaled gradient.",
              infer_scaled_update),
    update<14>("LambDirection", "Direction of LAMB (You et al. 2020): Adam's plus the decay; result 0 is the direction, not the parameter.",
               infer_update, Trait::Elementwise),
    update<3>("LambUpdate", "parameter - lr (|parameter| / |direction|) direction.", infer_scaled_update),
    update<8>(
        "NovogradUpdate",
        "NovoGrad (Ginsburg et al. 2019, algorithm 1): the second moment is one number per tensor, kept in every element of its state.",
        infer_normed_update),
    {.name = "SquaredNorm",
     .description = "Sum of squares of all elements, in f64.",
     .family = CostFamily::Reduction,
     .infer = infer_norm,
     .labels = labels_norm,
     .work = work_norm,
     .no_gradient = kNotDifferentiated},
};

}  // namespace

std::span<const OpSchema> optimizer_ops() { return kOptimizerRows; }

}  // namespace rehearsal::graph
