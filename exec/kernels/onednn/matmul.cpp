// Matrix products, batched and broadcast, with either factor stored transposed.

#include <algorithm>

#include "exec/kernels/onednn/families.hpp"
#include "exec/kernels/onednn/onednn_versions.hpp"
#include "exec/kernels/onednn/primitive.hpp"
#include "exec/kernels/onednn/sgemm.hpp"
#include "graph/ops/matrix.hpp"

namespace rehearsal::exec::onednn {
namespace {

using dnnl::memory;

/// From here on, a second factor of f32 is packed before it is used: measured on AVX-512, packing costs less than it gains. Of bf16 never:
/// on AMX packing costs what it gains, and for the largest matrices twice that.
constexpr std::int64_t kRowsWorthPacking = 256, kElementsWorthPacking = std::int64_t{1} << 21;

/// `batch` and then a matrix of rows x columns; exchanged in memory when transposed.
struct MatrixFactor {
  graph::Shape batch;
  std::int64_t rows, columns;
  bool transposed;
  DType type;

  [[nodiscard]] memory::desc description(std::size_t batch_rank) const {
    memory::dims dims(batch_rank - batch.size(), 1);
    dims.insert(dims.end(), batch.begin(), batch.end());
    memory::dims strides(dims.size());
    std::int64_t step = rows * columns;
    for (std::size_t d = dims.size(); d-- > 0;) strides[d] = step, step *= dims[d];
    dims.insert(dims.end(), {rows, columns});
    strides.push_back(transposed ? 1 : columns);
    strides.push_back(transposed ? rows : 1);
    return {dims, data_type(type), strides};
  }
};

struct FlatProduct {
  MatrixFactor a, b;
  graph::Shape batch;
};

FlatProduct product_of(const graph::NodeView& view) {
  const auto p = graph::matrix_product(view.input(0).shape, view.input(1).shape, view.attributes);
  const DType type = view.output().dtype;
  FlatProduct product{
      {p.a.batch, p.m, p.k, p.a.transposed, type}, {p.b.batch, p.k, p.n, p.b.transposed, type}, graph::broadcast(p.a.batch, p.b.batch)};
  // One matrix for a whole batch: its rows lie one after another, a single large product.
  if (graph::element_count(p.b.batch) == 1 && !p.a.transposed && p.a.batch == product.batch) {
    product.a = {{}, graph::element_count(p.a.batch) * p.m, p.k, false, type};
    product.b.batch = {};
    product.batch = {};
  }
  return product;
}

/// Two matrices of f32 by oneDNN's sgemm(), which packs small blocks of both as it goes. On processors with AMX, whose second caches hold
/// 2 MB, 69 products of the forward and backward passes of transformers and ConvNeXt took 0.90 of the time of the primitive with the rule
/// above on one core, 0.91 on two; the best of the three ways for each 0.90 on both.
class Sgemm final : public Kernel {
 public:
  Sgemm(const FlatProduct& product, bool bias, int threads) : a_(product.a), b_(product.b), bias_(bias), threads_(threads) {}

  [[nodiscard]] bool is_shareable() const override { return true; }
  [[nodiscard]] std::string engine() const override { return "sgemm"; }

  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, const RunContext&) override {
    auto* c = outputs[0].as<float>();
    if (bias_) repeat(inputs[2].as<const float>(), c);
    const ThreadScope threads(threads_);
    multiply(stored(a_, inputs[0]), stored(b_, inputs[1]), {c, a_.rows, b_.columns, a_.columns, 1, bias_});
  }

 private:
  static StridedMatrix stored(const MatrixFactor& f, const TensorView& view) {
    return {view.as<const float>(), f.transposed ? f.rows : f.columns, f.transposed};
  }

  void repeat(const float* row, float* c) const {
#pragma omp parallel for schedule(static) num_threads(threads_)
    for (std::int64_t r = 0; r < a_.rows; ++r) std::copy_n(row, b_.columns, c + r * b_.columns);
  }

  MatrixFactor a_, b_;
  bool bias_;
  int threads_;
};

/// Below it sgemm() gains nothing, and holds some MB for the blocks that it packs.
constexpr std::int64_t kLeastSideForSgemm = 128;

bool is_for_sgemm(const FlatProduct& p) {
  const auto least = std::min({p.a.rows, p.a.columns, p.b.columns});
  return p.a.type == DType::F32 && p.batch.empty() && least >= kLeastSideForSgemm && has_amx();
}

std::unique_ptr<Kernel> make_product(const KernelRequest& r, bool bias) {
  const auto p = product_of(r.view());
  if (is_for_sgemm(p)) return std::make_unique<Sgemm>(p, bias, r.threads);
  const std::size_t rank = p.batch.size();
  const auto a = p.a.description(rank), b = p.b.description(rank),
             c = MatrixFactor{p.batch, p.a.rows, p.b.columns, false, p.a.type}.description(rank);
  const bool packs =
      p.a.type == DType::F32 && rank == 0 && p.a.rows >= kRowsWorthPacking && p.b.rows * p.b.columns >= kElementsWorthPacking;
  memory::desc addend;
  if (bias) addend = MatrixFactor{{}, 1, p.b.columns, false, p.a.type}.description(0);
  const auto pd = worthwhile(product({a, packs ? any_layout(b) : b, addend, c}, with_scratchpad(), cpu()), p.a.type);
  PrimitivePlan plan{[pd] { return dnnl::matmul(pd); }, pd.scratchpad_desc(), {}, r.threads};
  plan.bindings = {{DNNL_ARG_SRC, false, 0, a, a}, {DNNL_ARG_WEIGHTS, false, 1, b, pd.weights_desc()}, {DNNL_ARG_DST, true, 0, c, c}};
  if (bias) plan.bindings.push_back({DNNL_ARG_BIAS, false, 2, addend, addend});
  return make_kernel(std::move(plan));
}

std::unique_ptr<Kernel> make_matmul(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return nullptr;
  return or_refuse(request.threads, reason, [&] { return make_product(request, false); });
}

std::unique_ptr<Kernel> make_gemm(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return nullptr;
  const auto view = request.view();
  const bool bias = view.has_input(2);
  if (request.attributes.number("alpha", 1.0) != 1.0 || (bias && request.attributes.number("beta", 1.0) != 1.0)) {
    reason = "alpha and beta must be 1";
    return nullptr;
  }
  const auto columns = view.output().shape[1];
  if (bias &&
      (graph::element_count(view.input(2).shape) != columns || view.input(2).shape.empty() || view.input(2).shape.back() != columns)) {
    reason = "the addend must be one row";
    return nullptr;
  }
  return or_refuse(request.threads, reason, [&] { return make_product(request, bias); });
}

constexpr KernelRow kMatmulRows[] = {
    {"MatMul", "onednn:matmul", make_matmul},
    {"Gemm", "onednn:matmul", make_gemm},
};

}  // namespace

std::span<const KernelRow> matmul_kernels() { return kMatmulRows; }

}  // namespace rehearsal::exec::onednn
