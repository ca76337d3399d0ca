// Matrix products by cuBLASLt, batched and broadcast, with either factor stored transposed. cuBLASLt counts columns first: the product of
// row-major matrices C = A B is computed as C' = B' A' of the same memory read column-major.
// Reference: NVIDIA, "cuBLAS Library", chapter cuBLASLt.

#include <algorithm>
#include <array>
#include <map>

#include "base/error.hpp"
#include "exec/kernels/cuda/libraries.hpp"
#include "exec/kernels/cuda/moves.hpp"
#include "exec/kernels/cuda/nvidia_gpu.hpp"
#include "exec/kernels/cuda/workspace_parts.hpp"
#include "graph/ops/matrix.hpp"
#include "graph/ops/strided.hpp"

namespace rehearsal::exec::cuda {
namespace {

void check(cublasStatus_t status, const char* doing) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw EnvironmentFailure(std::string("GPU: ") + doing + " by cuBLASLt failed: " + cublasLtGetStatusString(status));
}

cudaDataType_t type_of(DType type) {
  return type == DType::F64 ? CUDA_R_64F : type == DType::F16 ? CUDA_R_16F : type == DType::BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// A matrix in memory, row after row.
struct StoredMatrix {
  std::int64_t rows = 0, columns = 0;
  std::int64_t step = 0;        ///< elements from one row to the next
  std::int64_t copied_at = -1;  ///< bytes of the workspace before its copy with that step; -1: it is read and written where it lies
  [[nodiscard]] std::int64_t elements() const { return rows * step; }
};

struct MatrixLayout {
  cublasLtMatrixLayout_t handle = nullptr;
  MatrixLayout(DType type, const StoredMatrix& m) {
    check(cublasLtMatrixLayoutCreate(&handle, type_of(type), static_cast<std::uint64_t>(m.columns), static_cast<std::uint64_t>(m.rows),
                                     m.step),
          "describing a matrix");
  }
  ~MatrixLayout() { (void)cublasLtMatrixLayoutDestroy(handle); }
  MatrixLayout(const MatrixLayout&) = delete;
  MatrixLayout& operator=(const MatrixLayout&) = delete;
  void set_batch(std::int32_t count, std::int64_t stride) {
    check(cublasLtMatrixLayoutSetAttribute(handle, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "describing a batch");
    check(cublasLtMatrixLayoutSetAttribute(handle, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
          "describing a batch");
  }
};

struct Operation {
  cublasLtMatmulDesc_t handle = nullptr;
  Operation(DType type, bool tf32) {
    const auto compute = type == DType::F64 ? CUBLAS_COMPUTE_64F : tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check(cublasLtMatmulDescCreate(&handle, compute, type == DType::F64 ? CUDA_R_64F : CUDA_R_32F), "describing a product");
  }
  ~Operation() { (void)cublasLtMatmulDescDestroy(handle); }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(cublasLtMatmulDescSetAttribute(handle, attribute, &value, sizeof value), "describing a product");
  }
};

/// Matrices that one call multiplies: `count` of them, `strides` elements apart; and where each call begins.
struct Batches {
  std::int32_t count = 1;
  std::array<std::int64_t, 3> strides{};             ///< of C, A, B
  std::vector<std::array<std::int64_t, 3>> offsets;  ///< in elements
};

graph::StridedView batch_view_of_products(const graph::Shape& shape, const graph::Shape& batch, std::int64_t elements) {
  auto view = graph::broadcast_view(shape, batch);
  for (auto& stride : view.strides) stride *= elements;
  return view;
}

Batches batches_of(const graph::MatrixProduct& p) {
  const auto batch = graph::broadcast(p.a.batch, p.b.batch);
  const graph::RowWalk<3> walk({batch_view_of_products(batch, batch, p.m * p.n), batch_view_of_products(p.a.batch, batch, p.m * p.k),
                                batch_view_of_products(p.b.batch, batch, p.k * p.n)});
  Batches batches{static_cast<std::int32_t>(walk.length()), walk.steps(), {}};
  walk.each([&](std::int64_t, const std::array<std::int64_t, 3>& at) { batches.offsets.push_back(at); });
  return batches;
}

/// One matrix for a whole batch: its rows lie one after another, a single large product.
graph::MatrixProduct joined(graph::MatrixProduct p) {
  if (graph::element_count(p.b.batch) != 1 || p.a.transposed || graph::element_count(p.a.batch) == 0) return p;
  p.m *= graph::element_count(p.a.batch);
  p.a.batch = p.b.batch = {};
  return p;
}

constexpr std::int64_t kRowBytes = 16;       // rows that begin at multiples of it are what tensor cores read fast
constexpr std::int64_t kWorthCopying = 256;  // multiplications of an element that pay for copying it, there and back at memory's speed

/// `times`: in how many multiplications each element takes part.
StoredMatrix stored(std::int64_t rows, std::int64_t columns, std::int64_t times, std::int64_t element_bytes) {
  const std::int64_t step = rounded_up(columns * element_bytes, kRowBytes) / element_bytes;
  return {rows, columns, times >= kWorthCopying ? step : columns};
}

/// C, A, B of a product: copied to rows of another step where `on_tensor_cores` and that is worth it.
std::array<StoredMatrix, 3> matrices_of(const graph::MatrixProduct& p, DType type, bool on_tensor_cores) {
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  const auto times = [&](std::int64_t size) { return on_tensor_cores ? size : 0; };
  const auto operand = [&](bool transposed, std::int64_t rows, std::int64_t columns, std::int64_t other) {
    return transposed ? stored(columns, rows, times(other), bytes) : stored(rows, columns, times(other), bytes);
  };
  return {stored(p.m, p.n, times(p.k), bytes), operand(p.a.transposed, p.m, p.k, p.n), operand(p.b.transposed, p.k, p.n, p.m)};
}

constexpr std::int64_t kMostWorkspace = std::int64_t{32} << 20;  // what NVIDIA advises for Hopper

class ProductsProduct final : public Kernel {
 public:
  ProductsProduct(const KernelRequest& r, const graph::MatrixProduct& p, bool tf32)
      : gpu_(gpu_of(r)),
        p_(p),
        type_(r.view().output().dtype),
        batches_(batches_of(p)),
        matrices_(matrices_of(p, type_, (tf32 || size_of(type_) == 2) && batches_.count == 1 && batches_.offsets.size() == 1)),
        operation_(type_, tf32),
        c_(type_, matrices_[0]),
        a_(type_, matrices_[1]),
        b_(type_, matrices_[2]),
        alpha_(r.attributes.number("alpha", 1.0)),
        has_bias_(r.view().has_input(2)) {
    c_.set_batch(batches_.count, batches_.strides[0]);
    a_.set_batch(batches_.count, batches_.strides[1]);
    b_.set_batch(batches_.count, batches_.strides[2]);
    operation_.set(CUBLASLT_MATMUL_DESC_TRANSA, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    operation_.set(CUBLASLT_MATMUL_DESC_TRANSB, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (has_bias_) operation_.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    workspace_ = std::clamp<std::int64_t>(8 * p.m * p.n * batches_.count, 1 << 16, kMostWorkspace);
    (void)parts_.add(workspace_);  // first
    for (auto& m : matrices_)
      if (m.step != m.columns) m.copied_at = parts_.add(m.elements() * static_cast<std::int64_t>(size_of(type_)));
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override { return parts_.bytes(); }
  [[nodiscard]] bool is_shareable() const override { return true; }  // one thread asks for all kernels of a device

  void run(std::span<const TensorView> in, std::span<const TensorView> out, const RunContext& context) override {
    auto* workspace = WorkspaceParts::begin(context.workspace);
    const auto size = static_cast<std::int64_t>(size_of(type_));
    if (has_bias_) operation_.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, in[2].data);
    const double wide_alpha = alpha_, wide_beta = 0;
    const float alpha = static_cast<float>(alpha_), beta = 0;
    const bool wide = type_ == DType::F64;
    for (const auto& at : batches_.offsets) {
      const auto* a = with_step(matrices_[1], in[0].as<const std::byte>() + at[1] * size, workspace);
      const auto* b = with_step(matrices_[2], in[1].as<const std::byte>() + at[2] * size, workspace);
      auto* result = out[0].as<std::byte>() + at[0] * size;
      auto* c = matrices_[0].copied_at < 0 ? result : workspace + matrices_[0].copied_at;
      const auto& algorithm = algorithm_for({a, b, c});
      const auto status = cublasLtMatmul(gpu_.blas(), operation_.handle, wide ? static_cast<const void*>(&wide_alpha) : &alpha, b,
                                         b_.handle, a, a_.handle, wide ? static_cast<const void*>(&wide_beta) : &beta, c, c_.handle, c,
                                         c_.handle, &algorithm, workspace, static_cast<std::size_t>(workspace_), gpu_.cuda_stream());
      if (status != CUBLAS_STATUS_SUCCESS) check(status, ("a product of " + size_text()).c_str());
      if (const auto& m = matrices_[0]; c != result)
        copy_rows(gpu_.stream(), {m.rows, m.columns, m.step, m.columns}, size_of(type_), c, result);
    }
  }

 private:
  /// An operand with the rows that the product reads.
  const std::byte* with_step(const StoredMatrix& m, const std::byte* data, std::byte* workspace) const {
    if (m.copied_at < 0) return data;
    copy_rows(gpu_.stream(), {m.rows, m.columns, m.columns, m.step}, size_of(type_), data, workspace + m.copied_at);
    return workspace + m.copied_at;
  }

  /// By the alignment of what it reads and writes: parts of a bucket begin anywhere.
  const cublasLtMatmulAlgo_t& algorithm_for(const std::array<const void*, 3>& pointers) {
    constexpr std::uintptr_t kBest = 256;
    std::array<std::uint32_t, 3> alignments{};
    for (std::size_t i = 0; i < alignments.size(); ++i) {
      const auto address = reinterpret_cast<std::uintptr_t>(pointers[i]) | kBest;
      alignments[i] = static_cast<std::uint32_t>(address & (~address + 1));
    }
    const auto [at, fresh] = algorithms_.try_emplace(alignments);
    if (fresh) at->second = find(alignments);
    return at->second;
  }

  [[nodiscard]] cublasLtMatmulAlgo_t find(const std::array<std::uint32_t, 3>& alignments) const {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "choosing a kernel");
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      check(cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof value), "choosing a kernel");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::size_t>(workspace_));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments[1]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments[0]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments[2]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments[2]);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const auto status = cublasLtMatmulAlgoGetHeuristic(gpu_.blas(), operation_.handle, b_.handle, a_.handle, c_.handle, c_.handle,
                                                       preference, 1, &result, &found);
    (void)cublasLtMatmulPreferenceDestroy(preference);
    check(status, "choosing a kernel");
    if (found == 0) throw EnvironmentFailure("GPU: cuBLASLt has no kernel for a product of " + size_text());
    return result.algo;
  }

  [[nodiscard]] std::string size_text() const {
    return std::to_string(p_.m) + " x " + std::to_string(p_.k) + " by " + std::to_string(p_.k) + " x " + std::to_string(p_.n) + " in " +
           std::string(name(type_));
  }

  NvidiaGpu& gpu_;
  graph::MatrixProduct p_;
  DType type_;
  Batches batches_;
  std::array<StoredMatrix, 3> matrices_;  ///< C, A, B
  Operation operation_;
  MatrixLayout c_, a_, b_;
  double alpha_;
  bool has_bias_;
  std::int64_t workspace_;  ///< of cuBLASLt
  WorkspaceParts parts_;    ///< with copies
  std::map<std::array<std::uint32_t, 3>, cublasLtMatmulAlgo_t> algorithms_;
};

bool takes(const KernelRequest& r, std::string& reason) {
  for (const auto& type : r.inputs)
    if (type && type->dtype != r.view().output().dtype) return reason = "operands of several types", false;
  const auto type = r.view().output().dtype;
  if (type != DType::F32 && type != DType::F64 && type != DType::F16 && type != DType::BF16)
    return reason = "no floating-point type", false;
  if (graph::element_count(r.view().input(0).shape) == 0 || graph::element_count(r.view().input(1).shape) == 0)
    return reason = "an empty factor", false;
  const auto plain = [](std::span<const plan::Format> formats) {
    return std::all_of(formats.begin(), formats.end(), [](plan::Format f) { return f == plan::Format::Plain; });
  };
  return (plain(r.input_formats) && plain(r.output_formats)) || (reason = "only plain matrices", false);
}

template <bool kTf32>
std::unique_ptr<Kernel> make_matmul(const KernelRequest& r, std::string& reason) {
  if (!takes(r, reason)) return nullptr;
  return std::make_unique<ProductsProduct>(r, joined(graph::matrix_product(r.view().input(0).shape, r.view().input(1).shape, r.attributes)),
                                           kTf32);
}

template <bool kTf32>
std::unique_ptr<Kernel> make_gemm(const KernelRequest& r, std::string& reason) {
  if (!takes(r, reason)) return nullptr;
  const auto view = r.view();
  const auto columns = view.output().shape[1];
  const bool is_row = !view.has_input(2) || (graph::element_count(view.input(2).shape) == columns && !view.input(2).shape.empty() &&
                                             view.input(2).shape.back() == columns);
  if (!is_row || (view.has_input(2) && r.attributes.number("beta", 1.0) != 1.0)) {
    reason = "the addend must be one row, and beta 1";
    return nullptr;
  }
  return std::make_unique<ProductsProduct>(r, graph::matrix_product(view.input(0).shape, view.input(1).shape, r.attributes), kTf32);
}

constexpr KernelRow kProductsRows[] = {
    {"MatMul", "cublaslt:product", make_matmul<false>},
    {"Gemm", "cublaslt:product", make_gemm<false>},
};
constexpr KernelRow kTf32Rows[] = {
    {"MatMul", "cublaslt:product-tf32", make_matmul<true>},
    {"Gemm", "cublaslt:product-tf32", make_gemm<true>},
};

}  // namespace

std::span<const KernelRow> product_kernels(bool tf32) { return tf32 ? std::span<const KernelRow>(kTf32Rows) : kProductsRows; }

}  // namespace rehearsal::exec::cuda
