#pragma once
// What writes the nodes of updates that are more than one node.

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder.hpp"

namespace rehearsal::graph {

inline GraphBuilder::NodeOptions update_named(const std::string& name) { return {name, Phase::Update, NodeId::None, {}}; }

struct Term {
  TensorId of;
  double factor;
};

/// Nodes of one update, named after it.
struct UpdateWriter {
  GraphBuilder& builder;
  const std::string& name;

  TensorId add(std::string_view op, std::vector<TensorId> inputs, Attributes attributes, const char* what) {
    return builder.add(op, std::move(inputs), std::move(attributes), update_named(name + what)).front();
  }
  TensorId squared_norm(TensorId x, const char* what) { return add("SquaredNorm", {x}, {}, what); }
  TensorId sum(TensorId x, std::vector<std::int64_t> axes, double scale, const char* what) {
    Attributes attributes{{"axes", std::move(axes)}, {"keepdims", std::int64_t{1}}};
    if (scale != 1) attributes.set("scale", scale);
    return add("ReduceSum", {x}, std::move(attributes), what);
  }
  TensorId cast(TensorId x, DType to, const char* what) {
    return builder.type(x).dtype == to ? x : add("Cast", {x}, {{"to", std::string(rehearsal::name(to))}}, what);
  }
  TensorId reshaped(TensorId x, const Shape& shape, const char* what) {
    return builder.type(x).shape == shape ? x : add("Reshape", {x}, {{"shape", shape}}, what);
  }
  /// `transposed`: "trans_a", "trans_b" or "".
  TensorId product(TensorId a, TensorId b, const char* transposed, const char* what) {
    Attributes attributes;
    if (*transposed != '\0') attributes.set(transposed, std::int64_t{1});
    return add("MatMul", {a, b}, std::move(attributes), what);
  }
  TensorId blended(Term x, Term y, const char* what) {
    return add("LinearCombination", {x.of, y.of}, {{"alpha", x.factor}, {"beta", y.factor}}, what);
  }
  /// Of each matrix: over its elements' root of the sum of squares.
  TensorId normalized(TensorId x) {
    constexpr double kLeastNorm = 1e-7;
    const TensorId square = sum(add("Mul", {x, x}, {}, ".squares"), {-2, -1}, 1, ".square");
    return add("DivideByNorm", {x, square}, {{"least", kLeastNorm}}, ".normalized");
  }
};

/// Nodes of the update that are of no parameter: named after what they are part of, and their operators.
struct StepWriter {
  GraphBuilder& builder;
  std::string part;

  TensorId add(std::string_view op, std::vector<TensorId> inputs, Attributes attributes = {}) {
    return builder.add(op, std::move(inputs), std::move(attributes), update_named(part + "." + std::string(op))).front();
  }
  TensorId number(double value, DType dtype = DType::F64) {
    return builder.add_constant(builder.fresh_name(part + ".constant"), Value::scalar(value, dtype));
  }
  /// Of all that are not None; None where there are none.
  TensorId sum_of_squares(std::span<const TensorId> gradients) {
    TensorId sum = TensorId::None;
    for (const TensorId g : gradients) {
      if (g == TensorId::None) continue;
      const TensorId square = add("SquaredNorm", {g});
      sum = sum == TensorId::None ? square : add("Add", {sum, square});
    }
    return sum;
  }
};

}  // namespace rehearsal::graph
