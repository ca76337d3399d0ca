#include "graph/clipping.hpp"

#include <map>
#include <string>

namespace rehearsal::graph {
namespace {

TensorId add_update(GraphBuilder& builder, std::string_view op, std::vector<TensorId> inputs, Attributes attributes = {}) {
  return builder.add(op, std::move(inputs), std::move(attributes), {"clip." + std::string(op), Phase::Update, NodeId::None, {}}).front();
}

TensorId number(GraphBuilder& builder, double value) {
  return builder.add_constant(builder.fresh_name("clip.constant"), Value::scalar(value, DType::F64));
}

TensorId squared_norm_of_all(GraphBuilder& builder, std::span<const TensorId> gradients) {
  TensorId sum = TensorId::None;
  for (const TensorId g : gradients) {
    if (g == TensorId::None) continue;
    const TensorId part = add_update(builder, "SquaredNorm", {g});
    sum = sum == TensorId::None ? part : add_update(builder, "Add", {sum, part});
  }
  return sum;
}

}  // namespace

std::vector<TensorId> add_clipping(GraphBuilder& builder, std::span<const TensorId> gradients, double most) {
  const TensorId sum = squared_norm_of_all(builder, gradients);
  if (sum == TensorId::None) return {gradients.begin(), gradients.end()};
  const TensorId norm = add_update(builder, "Add", {add_update(builder, "Sqrt", {sum}), number(builder, 1e-6)});
  const TensorId factor = add_update(builder, "Min", {add_update(builder, "Div", {number(builder, most), norm}), number(builder, 1)});
  std::vector<TensorId> clipped;
  std::map<DType, TensorId> in_type{{DType::F64, factor}};  // once: in a pipeline it is sent to other stages
  for (const TensorId g : gradients) {
    if (g == TensorId::None) {
      clipped.push_back(g);
      continue;
    }
    const DType dtype = builder.type(g).dtype;
    if (!in_type.contains(dtype)) in_type[dtype] = add_update(builder, "Cast", {factor}, {{"to", std::string(name(dtype))}});
    clipped.push_back(add_update(builder, "Mul", {g, in_type.at(dtype)}));
  }
  return clipped;
}

std::vector<TensorId> add_value_clipping(GraphBuilder& builder, std::span<const TensorId> gradients, double most) {
  std::vector<TensorId> clipped;
  for (const TensorId g : gradients)
    clipped.push_back(g == TensorId::None ? g : add_update(builder, "Clip", {g}, {{"min", -most}, {"max", most}}));
  return clipped;
}

}  // namespace rehearsal::graph
