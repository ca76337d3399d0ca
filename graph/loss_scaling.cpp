#include "graph/loss_scaling.hpp"

namespace rehearsal::graph {

LossScaling::LossScaling(GraphBuilder& builder, const LossScale& scale)
    : builder_(builder), writer_{builder, "loss_scale"}, adapts_(scale.adapts) {
  if (!(scale.first > 0)) return;
  if (!adapts_) {
    scale_ = writer_.number(scale.first);
    return;
  }
  scale_ = builder_.add_stored(builder_.fresh_name("loss_scale"), {DType::F64, {}}, TensorRole::Slot, {DType::F64, Fill{scale.first}});
  count_ = builder_.add_stored(builder_.fresh_name("loss_scale.steps"), {DType::I64, {}}, TensorRole::Slot, {DType::I64, Fill{0}});
}

TensorId LossScaling::scaled(TensorId loss) { return used() ? builder_.add1("Mul", {loss, scale_}) : loss; }

std::vector<TensorId> LossScaling::unscaled(TensorId loss, const std::vector<TensorId>& gradients) {
  if (!used()) return gradients;
  // Zero where everything is finite, else not a number.
  TensorId sum = writer_.sum_of_squares(gradients);
  sum = sum == TensorId::None ? loss : writer_.add("Add", {sum, loss});
  finite_ = writer_.add("Equal", {writer_.add("Sub", {sum, sum}), writer_.number(0)});
  // Through the condition, so that every pipeline stage has this factor from the one that keeps the scale.
  const TensorId inverse = writer_.add("Div", {writer_.number(1), scale_});
  const TensorId factor = writer_.add("Where", {finite_, inverse, writer_.number(0)});
  const TensorId f32 = writer_.add("Cast", {factor}, {{"to", std::string(name(DType::F32))}});
  std::vector<TensorId> result;
  for (const TensorId g : gradients) {
    if (g == TensorId::None) {
      result.push_back(g);
      continue;
    }
    const DType dtype = builder_.type(g).dtype;
    const TensorId wide = size_of(dtype) == 2 ? writer_.add("Cast", {g}, {{"to", std::string(name(DType::F32))}}) : g;
    result.push_back(writer_.add("Mul", {wide, dtype == DType::F64 ? factor : f32}));
  }
  if (adapts_) adapt();
  return result;
}

TensorId LossScaling::kept(TensorId updated, TensorId old) { return used() ? writer_.add("Where", {finite_, updated, old}) : updated; }

void LossScaling::adapt() {
  const TensorId zero = writer_.number(0, DType::I64), one = writer_.number(1, DType::I64),
                 limit = writer_.number(kLossScaleGrowthSteps, DType::I64);
  const TensorId counted = writer_.add("Add", {count_, one});
  const TensorId grows = writer_.add("Equal", {counted, limit});
  const TensorId grown = writer_.add("Where", {grows, writer_.add("Mul", {scale_, writer_.number(kLossScaleGrowth)}), scale_});
  const TensorId shrunk = writer_.add("Mul", {scale_, writer_.number(kLossScaleBackoff)});
  builder_.set_stored_in(writer_.add("Where", {finite_, grown, shrunk}), scale_);
  builder_.set_stored_in(writer_.add("Where", {finite_, writer_.add("Where", {grows, zero, counted}), zero}), count_);
}

}  // namespace rehearsal::graph
