#include <array>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/matrix.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

std::vector<TensorType> infer_matmul(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_same_type(node, 0, 1);
  const MatrixProduct p = matrix_product(node.input(0).shape, node.input(1).shape, node.attributes);
  Shape shape = broadcast(p.a.batch, p.b.batch);
  if (node.input(0).shape.size() > 1) shape.push_back(p.m);
  if (node.input(1).shape.size() > 1) shape.push_back(p.n);
  return {{node.input(0).dtype, shape}};
}

/// Labels of the last two dimensions of an operand: outer first, exchanged when it is stored transposed.
void label_matrix(TensorLabels& labels, const Shape& shape, const StoredMatrix& matrix, std::array<int, 2> names) {
  if (matrix.transposed) std::swap(names[0], names[1]);
  const std::size_t rank = shape.size();
  const auto set = [&](std::size_t d, int name) {
    if (shape[d] != 1) labels[d] = whole(name, shape[d]);
  };
  if (rank == 1) {
    set(0, matrix.vector_is_row ? names[1] : names[0]);
  } else {
    set(rank - 2, names[0]);
    set(rank - 1, names[1]);
  }
}

/// Labels: the batch dimensions of the result, then m, n and k; k is summed.
SplitRule matmul_labels(const NodeView& node) {
  const Shape& a = node.input(0).shape;
  const Shape& b = node.input(1).shape;
  const MatrixProduct p = matrix_product(a, b, node.attributes);
  const Shape batch = broadcast(p.a.batch, p.b.batch);
  const int m = static_cast<int>(batch.size()), n = m + 1, k = m + 2;
  SplitRule rule;
  for (const Shape& own : {p.a.batch, p.b.batch}) rule.inputs.push_back(aligned_labels(own, batch));
  rule.outputs.push_back(aligned_labels(batch, batch));
  rule.inputs[0].resize(a.size());
  rule.inputs[1].resize(b.size());
  label_matrix(rule.inputs[0], a, p.a, {m, k});
  label_matrix(rule.inputs[1], b, p.b, {k, n});
  if (a.size() > 1) rule.outputs[0].push_back(p.m == 1 ? DimLabels{} : whole(m, p.m));
  if (b.size() > 1) rule.outputs[0].push_back(p.n == 1 ? DimLabels{} : whole(n, p.n));
  rule.kinds.assign(static_cast<std::size_t>(k) + 1, LabelKind::Parallel);
  rule.kinds.back() = LabelKind::Sum;
  return rule;
}

Work matmul_work(const NodeView& node) {
  const MatrixProduct p = matrix_product(node.input(0).shape, node.input(1).shape, node.attributes);
  return {Flops(2.0 * static_cast<double>(element_count(node.output().shape)) * static_cast<double>(p.k)), traffic(node)};
}

Attributes transposes(bool a, bool b) {
  Attributes attributes;
  if (a) attributes.set("trans_a", std::int64_t{1});
  if (b) attributes.set("trans_b", std::int64_t{1});
  return attributes;
}

TensorId reshaped(GradientContext& g, TensorId t, const Shape& shape) {
  return g.type(t).shape == shape ? t : g.emit1("Reshape", {t}, {{"shape", shape}});
}

/// The gradients of op(A) op(B) given those of the product; op transposes as the flags say. dA' = dY op(B)^T, dB' = op(A)^T dY,
/// each transposed back by exchanging the factors, so that no tensor is ever transposed in memory.
struct ProductGradient {
  GradientContext& g;
  TensorId dy, a, b;
  bool ta, tb;

  [[nodiscard]] TensorId of_a() const {
    return ta ? g.emit1("MatMul", {b, dy}, transposes(tb, true)) : g.emit1("MatMul", {dy, b}, transposes(false, !tb));
  }
  [[nodiscard]] TensorId of_b() const {
    return tb ? g.emit1("MatMul", {dy, a}, transposes(true, ta)) : g.emit1("MatMul", {a, dy}, transposes(!ta, false));
  }
  /// One matrix B for a whole batch of A: the sum over the batch is part of one large product.
  void join_batch() {
    const Shape x = g.type(a).shape, y = g.type(dy).shape;
    if (g.type(b).shape.size() != 2 || x.size() == 2 || ta) return;
    a = reshaped(g, a, {element_count(x) / x.back(), x.back()});
    dy = reshaped(g, dy, {element_count(y) / y.back(), y.back()});
  }
};

void set_reshaped(GradientContext& g, std::size_t i, TensorId gradient, const Shape& padded) {
  const Shape own = g.type(g.input(i)).shape;
  if (own == padded) return g.set_broadcast(i, gradient);
  // a vector operand: sum over the batch first, then drop the dimension of size 1
  const auto rank = static_cast<std::int64_t>(g.type(gradient).shape.size());
  std::vector<std::int64_t> batch;
  for (std::int64_t d = 0; d + 2 < rank; ++d) batch.push_back(d);
  const TensorId summed = batch.empty() ? gradient : g.emit1("ReduceSum", {gradient}, {{"axes", batch}, {"keepdims", std::int64_t{0}}});
  g.set(i, reshaped(g, summed, own));
}

void matmul_gradient(GradientContext& g) {
  const MatrixProduct p = matrix_product(g.type(g.input(0)).shape, g.type(g.input(1)).shape, g.attributes());
  const auto padded = [&](std::size_t i) {
    Shape shape = g.type(g.input(i)).shape;
    if (shape.size() == 1) shape.insert(i == 0 ? shape.begin() : shape.end(), 1);
    return shape;
  };
  Shape product = broadcast(p.a.batch, p.b.batch);
  product.insert(product.end(), {p.m, p.n});
  ProductGradient parts{g,
                        reshaped(g, g.gradient_of_output(), product),
                        reshaped(g, g.input(0), padded(0)),
                        reshaped(g, g.input(1), padded(1)),
                        p.a.transposed,
                        p.b.transposed};
  if (g.wants(0)) set_reshaped(g, 0, parts.of_a(), padded(0));
  if (!g.wants(1)) return;
  parts.join_batch();
  set_reshaped(g, 1, parts.of_b(), padded(1));
}

// Gemm(A, B, C?): alpha op(A) op(B) + beta C

std::vector<TensorType> infer_gemm(const NodeView& node) {
  require_inputs(node, 2, 3);
  require_same_type(node, 0, 1);
  require_rank(node, 0, 2, 2);
  require_rank(node, 1, 2, 2);
  const MatrixProduct p = matrix_product(node.input(0).shape, node.input(1).shape, node.attributes);
  if (node.has_input(2)) {
    require_same_type(node, 0, 2);
    const Shape& c = node.input(2).shape;
    if (c.size() > 2 || broadcast(c, {p.m, p.n}) != Shape{p.m, p.n}) {
      throw BadInput("operand 2 has shape " + to_text(c) + ", it must broadcast to " + to_text({p.m, p.n}));
    }
  }
  return {{node.input(0).dtype, {p.m, p.n}}};
}

/// C is added once: where the contracted dimension is split, one block adds it.
SplitRule gemm_labels(const NodeView& node) {
  SplitRule rule = matmul_labels(node);
  if (node.has_input(2)) rule.inputs.push_back(aligned_labels(node.input(2).shape, node.output().shape));
  return rule;
}

Work gemm_work(const NodeView& node) {
  Work work = matmul_work(node);
  if (node.has_input(2)) work.flops += Flops(static_cast<double>(element_count(node.output().shape)));
  return work;
}

void gemm_gradient(GradientContext& g) {
  const double alpha = g.attributes().number("alpha", 1.0), beta = g.attributes().number("beta", 1.0);
  const TensorId dy = g.gradient_of_output();
  const auto scaled = [&](TensorId t, double factor) { return factor == 1.0 ? t : g.emit1("Scale", {t}, {{"factor", factor}}); };
  const ProductGradient parts{
      g, scaled(dy, alpha), g.input(0), g.input(1), g.attributes().integer("trans_a", 0) != 0, g.attributes().integer("trans_b", 0) != 0};
  if (g.wants(0)) g.set(0, parts.of_a());
  if (g.wants(1)) g.set(1, parts.of_b());
  if (g.wants(2)) g.set_broadcast(2, scaled(dy, beta));
}

// Det: the determinant of each matrix, the last two dimensions

Shape without_matrix(const Shape& shape) { return {shape.begin(), shape.end() - 2}; }

std::vector<TensorType> infer_determinant(const NodeView& node) {
  require_inputs(node, 1, 1);
  require_square_matrices(node, 0);
  return {{node.input(0).dtype, without_matrix(node.input(0).shape)}};
}

std::vector<TensorType> determinant_infer_gradient(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_square_matrices(node, 1);
  const Shape expected = without_matrix(node.input(1).shape);
  if (node.input(0).shape != expected)
    throw BadInput("operand 0 has shape " + to_text(node.input(0).shape) + ", it must be " + to_text(expected));
  return {node.input(1)};
}

/// Samples are independent, matrices whole.
SplitRule labels_of_matrices(const Shape& matrices, bool gradient) {
  const std::size_t rank = matrices.size();
  const TensorLabels full = aligned_labels(matrices, matrices), samples(full.begin(), full.end() - 2);
  SplitRule rule{{full}, {samples}, std::vector<LabelKind>(rank, LabelKind::Parallel)};
  rule.kinds[rank - 1] = rule.kinds[rank - 2] = LabelKind::Opaque;
  if (gradient) {
    rule.inputs = {samples, full};
    rule.outputs = {full};
  }
  return rule;
}
SplitRule determinant_labels(const NodeView& node) { return labels_of_matrices(node.input(0).shape, false); }
SplitRule determinant_gradient_labels(const NodeView& node) { return labels_of_matrices(node.input(1).shape, true); }

/// An LU factorization takes 2/3 n^3 operations.
Work factorization_work(const NodeView& node) {
  const Shape& shape = node.inputs.back()->shape;
  return {Flops(2.0 / 3 * static_cast<double>(element_count(shape)) * static_cast<double>(shape.back())), traffic(node)};
}

void determinant_gradient(GradientContext& g) { g.set(0, g.emit1("DetGrad", {g.gradient_of_output(), g.input(0)})); }

constexpr OpSchema kMatmulRows[] = {
    {.name = "MatMul",
     .description = "matrix product of the last two dimensions, broadcast over the others; attributes trans_a, trans_b",
     .family = CostFamily::MatMul,
     .infer = infer_matmul,
     .labels = matmul_labels,
     .work = matmul_work,
     .gradient = matmul_gradient,
     .in_attention = AttentionPart::Product},
    {.name = "Gemm",
     .description = "alpha op(A) op(B) + beta C of matrices; attributes alpha, beta, trans_a, trans_b",
     .family = CostFamily::MatMul,
     .infer = infer_gemm,
     .labels = gemm_labels,
     .work = gemm_work,
     .gradient = gemm_gradient,
     .addend = 2},
    with_gradient("Det", "determinant of each matrix", CostFamily::MatMul, {infer_determinant, determinant_labels, factorization_work},
                  determinant_gradient),
    without_gradient("DetGrad", "gradient of Det: (gradient, matrices), times the cofactors of each matrix", CostFamily::MatMul,
                     {determinant_infer_gradient, determinant_gradient_labels, factorization_work}),
};

}  // namespace

std::span<const OpSchema> matmul_ops() { return kMatmulRows; }

}  // namespace rehearsal::graph
