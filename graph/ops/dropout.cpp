// Dropout (Srivastava et al., JMLR 2014), inverted: kept elements grow by 1 / (1 - ratio). The mask is never stored: it is drawn again
// from (seed, step, attribute "stream", index in the unsplit tensor), so it is the same in both directions and under every plan.

#include <string>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

std::vector<TensorType> infer_dropout(const NodeView& node) {
  require_inputs(node, 1, 1);
  require_float(node, 0);
  const double ratio = node.attributes.number("ratio", 0.5);
  if (!(ratio >= 0 && ratio <= 1)) throw BadInput("attribute 'ratio' is " + std::to_string(ratio) + ", it must lie in [0, 1]");
  if (!node.attributes.has("stream"))
    throw BadInput("attribute 'stream' is missing: it must be a number that no other dropout of the model has");
  return {node.input(0)};
}

void dropout_gradient(GradientContext& context) {
  context.set(0, context.emit1("DropoutGrad", {context.gradient_of_output()}, context.attributes()));
}

// Noise: attributes shape, dtype, stream; uniform in [0, 1), or standard normal with the attribute normal = 1

std::vector<TensorType> infer_noise(const NodeView& node) {
  require_inputs(node, 0, 0);
  const auto type = dtype_from_name(node.attributes.text("dtype", "f32"));
  if (!type || !is_float(*type)) throw BadInput("attribute 'dtype' must name a floating-point type");
  if (!node.attributes.has("shape") || !node.attributes.has("stream")) throw BadInput("attributes 'shape' and 'stream' are needed");
  return {{*type, node.attributes.integers("shape")}};
}

constexpr Trait kTraits = Trait::Elementwise | Trait::Random | Trait::Positional | Trait::InPlace;

const OpSchema kDropoutRows[] = {
    {.name = "Dropout",
     .description = "Zeroes each element with probability 'ratio' and divides the others by 1 - ratio.",
     .traits = kTraits | Trait::TrainingOnly,
     .infer = infer_dropout,
     .labels = elementwise_labels,
     .work = work_per_result<2>,
     .gradient = dropout_gradient},
    {.name = "DropoutGrad",
     .description = "Gradient of Dropout: the same mask, drawn again.",
     .traits = kTraits,
     .infer = infer_dropout,
     .labels = elementwise_labels,
     .work = work_per_result<2>,
     .no_gradient = kSecondDerivative},
    {.name = "Noise",
     .description = "Fresh random numbers of every step: uniform in [0, 1), or normal.",
     .traits = Trait::Elementwise | Trait::Random | Trait::Positional,
     .infer = infer_noise,
     .labels = elementwise_labels,
     .work = work_per_result<2>,
     .no_gradient = "it has no operands"},
};

}  // namespace

std::span<const OpSchema> dropout_ops() { return kDropoutRows; }

}  // namespace rehearsal::graph
