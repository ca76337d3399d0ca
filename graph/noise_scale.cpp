#include "graph/noise_scale.hpp"

#include <string>

#include "graph/gradient.hpp"

namespace rehearsal::graph {
namespace {

/// What is measured of each gradient.
struct MeasuredSquares {
  std::string_view op;
  Attributes attributes;
  std::string_view name;
};

/// The sum over all gradients, stored.
TensorId stored_sum(GraphBuilder& builder, std::span<const TensorId> gradients, const MeasuredSquares& measured) {
  const auto& [op, attributes, what] = measured;
  const std::string name = std::string(kMeasuredPrefix).append(what);
  const Phase phase = op == kSquaresOfParts ? Phase::Backward : Phase::Update;  // parts are there before they are added up
  TensorId sum = TensorId::None;
  for (const TensorId g : gradients) {
    if (g == TensorId::None) continue;
    const TensorId square = builder.add(op, {before_moves(builder, g)}, attributes, {name, phase, NodeId::None, {}}).front();
    sum = sum == TensorId::None ? square : builder.add("Add", {sum, square}, {}, {name + ".sum", Phase::Update, NodeId::None, {}}).front();
  }
  const TensorId slot = builder.add_stored(builder.fresh_name(name), builder.type(sum), TensorRole::Slot, {DType::F64, Fill{0}});
  const TensorId kept = builder.add("Scale", {sum}, {{"factor", 1.0}}, {name + ".kept", Phase::Update, NodeId::None, {}}).front();
  builder.set_stored_in(kept, slot);
  return slot;
}

}  // namespace

NoiseTensors add_noise_measurement(GraphBuilder& builder, std::span<const TensorId> gradients, std::int64_t batch) {
  return {stored_sum(builder, gradients, {kSquaresOfParts, {{"samples", batch}}, "parts"}),
          stored_sum(builder, gradients, {"SquaredNorm", {}, "whole"})};
}

}  // namespace rehearsal::graph
