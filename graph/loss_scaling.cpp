#include "graph/loss_scaling.hpp"

namespace rehearsal::graph {

LossScaling::LossScaling(GraphBuilder& builder, const LossScale& scale) : builder_(builder), adapts_(scale.adapts) {
  if (!(scale.first > 0)) return;
  if (!adapts_) {
    scale_ = number(scale.first, DType::F64);
    return;
  }
  scale_ = builder_.add_stored(builder_.fresh_name("loss_scale"), {DType::F64, {}}, TensorRole::Slot, {DType::F64, Fill{scale.first}});
  count_ = builder_.add_stored(builder_.fresh_name("loss_scale.steps"), {DType::I64, {}}, TensorRole::Slot, {DType::I64, Fill{0}});
}

TensorId LossScaling::update(std::string_view op, std::vector<TensorId> inputs, Attributes attributes) {
  return builder_.add(op, std::move(inputs), std::move(attributes), {"loss_scale." + std::string(op), Phase::Update, NodeId::None, {}})
      .front();
}

TensorId LossScaling::number(double value, DType dtype) {
  return builder_.add_constant(builder_.fresh_name("loss_scale.constant"), Value::scalar(value, dtype));
}

TensorId LossScaling::scaled(TensorId loss) { return used() ? builder_.add1("Mul", {loss, scale_}) : loss; }

std::vector<TensorId> LossScaling::unscaled(TensorId loss, const std::vector<TensorId>& gradients) {
  if (!used()) return gradients;
  // Zero where everything is finite, else not a number.
  TensorId sum = TensorId::None;
  for (const TensorId g : gradients) {
    if (g == TensorId::None) continue;
    const TensorId norm = update("SquaredNorm", {g});
    sum = sum == TensorId::None ? norm : update("Add", {sum, norm});
  }
  sum = sum == TensorId::None ? loss : update("Add", {sum, loss});
  finite_ = update("Equal", {update("Sub", {sum, sum}), number(0, DType::F64)});
  // Through the condition, so that every pipeline stage has this factor from the one that keeps the scale.
  const TensorId inverse = update("Div", {number(1, DType::F64), scale_});
  const TensorId factor = update("Where", {finite_, inverse, number(0, DType::F64)});
  const TensorId f32 = update("Cast", {factor}, {{"to", std::string(name(DType::F32))}});
  std::vector<TensorId> result;
  for (const TensorId g : gradients) {
    if (g == TensorId::None) {
      result.push_back(g);
      continue;
    }
    const DType dtype = builder_.type(g).dtype;
    const TensorId wide = size_of(dtype) == 2 ? update("Cast", {g}, {{"to", std::string(name(DType::F32))}}) : g;
    result.push_back(update("Mul", {wide, dtype == DType::F64 ? factor : f32}));
  }
  if (adapts_) adapt();
  return result;
}

TensorId LossScaling::kept(TensorId updated, TensorId old) { return used() ? update("Where", {finite_, updated, old}) : updated; }

void LossScaling::adapt() {
  const TensorId zero = number(0, DType::I64), one = number(1, DType::I64), limit = number(kLossScaleGrowthSteps, DType::I64);
  const TensorId counted = update("Add", {count_, one});
  const TensorId grows = update("Equal", {counted, limit});
  const TensorId grown = update("Where", {grows, update("Mul", {scale_, number(kLossScaleGrowth, DType::F64)}), scale_});
  const TensorId shrunk = update("Mul", {scale_, number(kLossScaleBackoff, DType::F64)});
  builder_.set_stored_in(update("Where", {finite_, grown, shrunk}), scale_);
  builder_.set_stored_in(update("Where", {finite_, update("Where", {grows, zero, counted}), zero}), count_);
}

}  // namespace rehearsal::graph
