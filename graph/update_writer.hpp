#pragma once
// What writes the nodes of updates that are more than one node.

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

}  // namespace rehearsal::graph
