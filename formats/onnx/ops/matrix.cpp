// Matrix products.


#include "formats/onnx/ops/einsum.hpp"
#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::Attributes;
using graph::TensorId;

void matmul(NodeImport& n) { n.set(0, n.emit("MatMul", {n.input(0), n.input(1)})); }

void determinant(NodeImport& n) { n.set(0, n.emit("Det", {n.input(0)})); }

void gemm(NodeImport& n) {
  const double alpha = n.number("alpha", 1.0), beta = n.number("beta", 1.0);
  Attributes attributes{{"trans_a", n.integer("transA", 0)}, {"trans_b", n.integer("transB", 0)}};
  if (alpha != 1) attributes.set("alpha", alpha);
  if (beta != 1) attributes.set("beta", beta);
  std::vector<TensorId> operands{n.input(0), n.input(1)};
  if (n.has(2)) operands.push_back(n.input(2));
  n.set(0, n.emit("Gemm", std::move(operands), std::move(attributes)));
}

void fused_matmul(NodeImport& n) {
  if (n.integer("transBatchA", 0) != 0 || n.integer("transBatchB", 0) != 0) n.unsupported("transposed batches are not supported");
  const double alpha = n.number("alpha", 1.0);
  const TensorId product =
      n.emit("MatMul", {n.input(0), n.input(1)}, {{"trans_a", n.integer("transA", 0)}, {"trans_b", n.integer("transB", 0)}});
  n.set(0, alpha == 1 ? product : n.emit("Scale", {product}, {{"factor", alpha}}));
}

void einsum(NodeImport& n) { n.set(0, import_einsum(n, n.text("equation", ""))); }

constexpr ImportRow kMatrixRows[] = {
    {kDefaultDomain, "MatMul", 1, kNewest, matmul},
    {kDefaultDomain, "Det", 11, kNewest, determinant},
    {kDefaultDomain, "Gemm", 1, kNewest, gemm},
    {kDefaultDomain, "Einsum", 12, kNewest, einsum},
    {kMicrosoft, "FusedMatMul", 1, kNewest, fused_matmul},
};

}  // namespace

std::span<const ImportRow> matrix_rows() { return kMatrixRows; }

}  // namespace rehearsal::formats
