// What the delta rule by chunks is made of beside products (Yang et al., "Parallelizing Linear Transformers with the Delta Rule over
// Sequence Length", 2024, section 3; with decays Yang, Kautz, Hatamizadeh, "Gated Delta Networks", 2024, section 3.3): the inverse of a
// chunk's unit triangular matrix, and states that chunks hand on.

#include <string>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

void require_shape(const NodeView& node, std::size_t operand, const Shape& expected) {
  require_same_type(node, 0, operand);
  if (node.input(operand).shape != expected)
    throw BadInput("operand " + std::to_string(operand) + " has shape " + to_text(node.input(operand).shape) + ", it must be " +
                   to_text(expected));
}

// TriangularSolve(L [..., q, q], B [..., q, c]): X with (I + what of L is below the diagonal) X = B, or its transpose X = B

std::vector<TensorType> infer_triangular_solve(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_float(node, 0);
  const Shape &l = node.input(0).shape, &b = node.input(1).shape;
  if (l.size() < 2 || l.back() != l[l.size() - 2])
    throw BadInput("operand 0 has shape " + to_text(l) + ", its last two dimensions must be equal");
  Shape expected = l;
  if (!b.empty()) expected.back() = b.back();
  require_shape(node, 1, expected);
  return {node.input(1)};
}

/// Batch and columns are independent of each other; a triangle is wanted whole.
SplitRule triangular_solve_labels(const NodeView& node) {
  const Shape &l = node.input(0).shape, &b = node.input(1).shape;
  const std::size_t rank = l.size(), rows = rank - 2, others = rank;
  TensorLabels triangle = aligned_labels(l, l), columns = aligned_labels(b, b);
  if (l.back() != 1) triangle.back() = whole(static_cast<int>(others), l.back());
  SplitRule rule{{triangle, columns}, {columns}, std::vector<LabelKind>(rank + 1, LabelKind::Parallel)};
  rule.kinds[rows] = rule.kinds[others] = LabelKind::Opaque;
  return rule;
}

/// Half a product: a multiply-add for every element below the diagonal and column.
Work triangular_solve_work(const NodeView& node) {
  const auto q = static_cast<double>(node.input(0).shape.back());
  return {Flops(static_cast<double>(element_count(node.output().shape)) * (q - 1)), traffic(node)};
}

/// With M the matrix: X = M^-1 B, so dB = M^-T dX and dM = -dB X^T; of the transposed problem dM = -X dB^T.
void triangular_solve_gradient(GradientContext& g) {
  const std::int64_t transposed = g.attributes().integer("transposed", 0);
  const TensorId db = g.emit1("TriangularSolve", {g.input(0), g.gradient_of_output()}, {{"transposed", 1 - transposed}});
  if (g.wants(1)) g.set(1, db);
  if (!g.wants(0)) return;
  const TensorId left = transposed != 0 ? g.output() : db, right = transposed != 0 ? db : g.output();
  const TensorId whole = g.emit1("MatMul", {left, right}, {{"trans_b", std::int64_t{1}}});
  const TensorId below = g.emit1("Trilu", {whole}, {{"upper", std::int64_t{0}}, {"k", std::int64_t{-1}}});
  g.set(0, g.emit1("Neg", {below}));
}

// DeltaScan(W, K [..., l, q, n], U [..., l, q, p], decay [..., l, 1 or n, 1], B [..., l, n, p]): for chunks i = 0, 1, … in turn
// V_i = U_i - s W_i S_i and S_(i+1) = decay_i S_i + s K_i^T V_i + B_i, from S_0 = 0; s is the attribute sign

constexpr std::size_t kRead = 0, kWritten = 1, kNew = 2, kDecay = 3, kGiven = 4;

std::vector<TensorType> infer_delta_scan(const NodeView& node) {
  require_inputs(node, 4, 5);
  require_float(node, kRead);
  const Shape& w = node.input(kRead).shape;
  if (w.size() < 3) throw BadInput("operand 0 has shape " + to_text(w) + ", it must have dimensions for chunks, tokens and features");
  require_shape(node, kWritten, w);
  Shape u = w;
  if (!node.input(kNew).shape.empty()) u.back() = node.input(kNew).shape.back();
  require_shape(node, kNew, u);
  Shape states = u;
  states[states.size() - 2] = w.back();
  Shape decay = states;
  decay.back() = 1;
  if (const Shape& own = node.input(kDecay).shape; own.size() == decay.size() && own[own.size() - 2] == 1) decay[decay.size() - 2] = 1;
  require_shape(node, kDecay, decay);
  if (node.has_input(kGiven)) require_shape(node, kGiven, states);
  const std::int64_t sign = node.attributes.integer("sign", 1);
  if (sign != 1 && sign != -1) throw BadInput("attribute sign is " + std::to_string(sign) + ", it must be 1 or -1");
  return {node.input(kNew), {node.input(kNew).dtype, states}};
}

/// What stands before the chunks is independent, and so are the columns of the states.
SplitRule delta_scan_labels(const NodeView& node) {
  const std::size_t rank = node.input(kRead).shape.size(), features = rank;
  const auto labels = [&](const Shape& shape, bool has_tokens, bool has_columns) {
    TensorLabels result = aligned_labels(shape, shape);
    const auto is_feature = [&](std::size_t d) {
      if (shape[d] != 1) result[d] = whole(static_cast<int>(features), shape[d]);
    };
    if (!has_tokens) is_feature(rank - 2);
    if (!has_columns) is_feature(rank - 1);
    return result;
  };
  SplitRule rule;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    rule.inputs.push_back(node.has_input(i) ? labels(node.input(i).shape, i <= kNew, i >= kNew) : TensorLabels{});
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    rule.outputs.push_back(node.has_output(i) ? labels(node.output(i).shape, i == 0, true) : TensorLabels{});
  rule.kinds.assign(rank + 1, LabelKind::Parallel);
  rule.kinds[rank - 3] = rule.kinds[rank - 2] = rule.kinds[features] = LabelKind::Opaque;
  return rule;
}

/// Two products a chunk.
Work delta_scan_work(const NodeView& node) {
  const auto n = static_cast<double>(node.input(kRead).shape.back());
  return {Flops(4 * n * static_cast<double>(element_count(node.input(kNew).shape))), traffic(node)};
}

TensorId zeros(GradientContext& g, TensorId like) {
  return g.emit1("ConstantOfShape", {}, {{"shape", g.type(like).shape}, {"dtype", std::string(name(g.type(like).dtype))}});
}

/// H_i, the gradient of what chunk i hands on, is again such a scan, from the other end: dU_i = dV_i + s K_i H_i and
/// H_(i-1) = decay_i H_i - s W_i^T dU_i + dS_i.
void delta_scan_gradient(GradientContext& g) {
  const std::int64_t sign = g.attributes().integer("sign", 1), reverse = g.attributes().integer("reverse", 0);
  const TensorId dv = g.gradient_of_output(0), ds = g.gradient_of_output(1), v = g.output(0), s = g.output(1);
  std::vector<TensorId> operands = {g.input(kWritten), g.input(kRead), dv != TensorId::None ? dv : zeros(g, g.input(kNew)),
                                    g.input(kDecay)};
  if (ds != TensorId::None) operands.push_back(ds);
  const auto scanned = g.emit("DeltaScan", std::move(operands), {{"sign", -sign}, {"reverse", 1 - reverse}});
  const TensorId du = scanned[0], h = scanned[1];
  const auto product = [&](TensorId a, TensorId b, double factor) {
    const TensorId y = g.emit1("MatMul", {a, b}, {{"trans_b", std::int64_t{1}}});
    return factor == 1 ? y : g.emit1("Scale", {y}, {{"factor", factor}});
  };
  if (g.wants(kRead)) g.set(kRead, product(du, s, static_cast<double>(-sign)));
  if (g.wants(kWritten)) g.set(kWritten, product(v, h, static_cast<double>(sign)));
  if (g.wants(kNew)) g.set(kNew, du);
  if (g.wants(kDecay)) g.set_broadcast(kDecay, g.emit1("Mul", {s, h}));
  if (g.wants(kGiven)) g.set(kGiven, h);
}

constexpr OpSchema kDeltaRuleRows[] = {
    with_gradient("TriangularSolve", "X with (I + L) X = B, of L what is below the diagonal; attribute transposed: (I + L)^T X = B",
                  CostFamily::MatMul, {infer_triangular_solve, triangular_solve_labels, triangular_solve_work}, triangular_solve_gradient),
    with_gradient("DeltaScan",
                  "states S that chunks hand on, V = U - sign W S, S' = decay S + sign K^T V + B: (W, K, U, decay, B) to V and the state "
                  "that enters each chunk; attributes sign, reverse (from the last chunk)",
                  CostFamily::MatMul, {infer_delta_scan, delta_scan_labels, delta_scan_work}, delta_scan_gradient),
};

}  // namespace

std::span<const OpSchema> delta_rule_ops() { return kDeltaRuleRows; }

}  // namespace rehearsal::graph
