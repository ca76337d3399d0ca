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

/// Matrices as the primitive gets them. Sums over long columns (k) of two matrices can be made of pieces of `k`, each added to the last.
struct ProductPieces {
  ProductShape shape;  ///< of one piece; without packing
  std::size_t pieces = 1;
  std::size_t step_a = 0, step_b = 0;  ///< bytes from one piece to the next
};

/// Shorter sums of two matrices of which the first is stored transposed are never shared out among threads by oneDNN (2.6: from 2,048 on).
constexpr std::int64_t kSharedSum = 2048;

/// The fewest pieces of equal length that are short enough; 1 where the sum has no such divisor.
std::int64_t pieces_of(std::int64_t k) {
  for (std::int64_t pieces = k / kSharedSum + 1; pieces <= k / (kSharedSum / 16); ++pieces)
    if (k % pieces == 0) return pieces;
  return 1;
}

ProductPieces in_pieces(const FlatProduct& p) {
  const auto pieces = pieces_of(p.a.columns);
  const auto k = p.a.columns / pieces;
  // a piece of a transposed matrix is some of its rows: it lies together
  const MatrixFactor a{{}, p.a.rows, k, true, p.a.type}, b{{}, k, p.b.columns, false, p.a.type},
      c{{}, p.a.rows, p.b.columns, false, DType::F32};
  const auto row = static_cast<std::size_t>(k) * size_of(p.a.type);
  return {{a.description(0), b.description(0), {}, c.description(0)},
          static_cast<std::size_t>(pieces),
          row * static_cast<std::size_t>(p.a.rows),
          row * static_cast<std::size_t>(p.b.columns)};
}

/// Where many threads share a long sum, oneDNN keeps a whole result for each of them: for the gradient of GPT-2's 50,257 words, a matrix of
/// 154 MB, 15 GB on 96 threads.
bool keeps_results_of_threads(const FlatProduct& p, const Matmul& description) {
  const auto matrices = description.src_desc().get_size() + description.weights_desc().get_size() + description.dst_desc().get_size();
  return description.scratchpad_desc().get_size() > matrices && p.batch.empty() && p.a.transposed && !p.b.transposed &&
         pieces_of(p.a.columns) > 1;
}

std::unique_ptr<Kernel> make_sum_of_pieces(const FlatProduct& p, int threads) {
  const auto all = in_pieces(p);
  auto adding = with_scratchpad();
  dnnl::post_ops sum;
  sum.append_sum();
  adding.set_post_ops(sum);
  const auto first = worthwhile(product(all.shape, with_scratchpad(), cpu()), p.a.type);
  const auto next = worthwhile(product(all.shape, adding, cpu()), p.a.type);
  const auto larger = [](const memory::desc& x, const memory::desc& y) { return x.get_size() < y.get_size() ? y : x; };
  PrimitivePlan plan{[first] { return dnnl::matmul(first); }, larger(first.scratchpad_desc(), next.scratchpad_desc()), {}, threads};
  plan.build_adding = [next] { return dnnl::matmul(next); };
  plan.pieces = all.pieces;
  const auto c = MatrixFactor{{}, p.a.rows, p.b.columns, false, p.a.type}.description(0);
  plan.bindings = {{DNNL_ARG_SRC, false, 0, all.shape.a, all.shape.a, all.step_a},
                   {DNNL_ARG_WEIGHTS, false, 1, all.shape.b, all.shape.b, all.step_b},
                   {DNNL_ARG_DST, true, 0, c, all.shape.c}};
  return make_kernel(std::move(plan));
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
  if (!bias && keeps_results_of_threads(p, pd)) return make_sum_of_pieces(p, r.threads);
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
