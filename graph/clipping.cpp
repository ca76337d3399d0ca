#include "graph/clipping.hpp"

#include <map>
#include <string>

#include "graph/update_writer.hpp"

namespace rehearsal::graph {
std::vector<TensorId> add_clipping(GraphBuilder& builder, std::span<const TensorId> gradients, double most) {
  StepWriter w{builder, "clip"};
  const TensorId sum = w.sum_of_squares(gradients);
  if (sum == TensorId::None) return {gradients.begin(), gradients.end()};
  const TensorId norm = w.add("Add", {w.add("Sqrt", {sum}), w.number(1e-6)});
  const TensorId factor = w.add("Min", {w.add("Div", {w.number(most), norm}), w.number(1)});
  std::vector<TensorId> clipped;
  std::map<DType, TensorId> in_type{{DType::F64, factor}};  // once: in a pipeline it is sent to other stages
  for (const TensorId g : gradients) {
    if (g == TensorId::None) {
      clipped.push_back(g);
      continue;
    }
    const DType dtype = builder.type(g).dtype;
    if (!in_type.contains(dtype)) in_type[dtype] = w.add("Cast", {factor}, {{"to", std::string(name(dtype))}});
    clipped.push_back(w.add("Mul", {g, in_type.at(dtype)}));
  }
  return clipped;
}

std::vector<TensorId> add_value_clipping(GraphBuilder& builder, std::span<const TensorId> gradients, double most) {
  StepWriter w{builder, "clip"};
  std::vector<TensorId> clipped;
  for (const TensorId g : gradients) clipped.push_back(g == TensorId::None ? g : w.add("Clip", {g}, {{"min", -most}, {"max", most}}));
  return clipped;
}

}  // namespace rehearsal::graph
