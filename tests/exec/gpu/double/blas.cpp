// The calls of cuBLASLt that the backend makes: products of column-major matrices, added up in f64. NVIDIA, "cuBLAS Library", cuBLASLt.
#include <cublasLt.h>

#include <cstring>

#include "exec/kernels/cuda/numbers.hpp"
#include "tests/exec/gpu/double/elements.hpp"
#include "tests/exec/gpu/double/machine.hpp"

using namespace rehearsal::exec::gpu_double;

namespace {

struct Matrix {
  cudaDataType type{};
  std::int64_t rows = 0, columns = 0, leading = 0, stride = 0;
  std::int32_t batch = 1;

  [[nodiscard]] rehearsal::DType dtype() const {
    return type == CUDA_R_64F    ? rehearsal::DType::F64
           : type == CUDA_R_16F  ? rehearsal::DType::F16
           : type == CUDA_R_16BF ? rehearsal::DType::BF16
                                 : rehearsal::DType::F32;
  }
  /// From the first element of the first matrix behind the last of the last one.
  [[nodiscard]] std::size_t bytes() const {
    const auto elements = static_cast<std::size_t>((batch - 1) * stride + (columns - 1) * leading + rows);
    return elements * rehearsal::size_of(dtype());
  }
};

struct Product {
  cublasComputeType_t compute{};
  cudaDataType_t scale{};
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};

struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t a = 256, b = 256, c = 256, d = 256;
};

/// What a call was given, checked as the library checks it.
template <class T>
cublasStatus_t take(T& into, const void* value, std::size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&into, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

Matrix& matrix_of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<Matrix*>(layout); }
Product& product_of(cublasLtMatmulDesc_t description) { return *reinterpret_cast<Product*>(description); }
Preference& preference_of(cublasLtMatmulPreference_t preference) { return *reinterpret_cast<Preference*>(preference); }

struct Call {
  Product product;
  Matrix a, b, c;
  double alpha = 1, beta = 0;
  const void *a_data = nullptr, *b_data = nullptr, *c_data = nullptr;
  void* d_data = nullptr;
};

std::int64_t place(const Matrix& m, bool transposed, std::int64_t row, std::int64_t column) {
  return transposed ? column + row * m.leading : row + column * m.leading;
}

void multiply(const Call& call) {
  const auto type = call.c.dtype();
  const bool ta = call.product.a == CUBLAS_OP_T, tb = call.product.b == CUBLAS_OP_T;
  const auto inner = ta ? call.a.rows : call.a.columns;
  for (std::int32_t n = 0; n < call.c.batch; ++n)
    for (std::int64_t column = 0; column < call.c.columns; ++column)
      for (std::int64_t row = 0; row < call.c.rows; ++row) {
        double sum = 0;
        for (std::int64_t k = 0; k < inner; ++k)
          sum += element(type, call.a_data, n * call.a.stride + place(call.a, ta, row, k)) *
                 element(type, call.b_data, n * call.b.stride + place(call.b, tb, k, column));
        const auto at = n * call.c.stride + place(call.c, false, row, column);
        double value = call.alpha * sum;
        if (call.beta != 0) value += call.beta * element(type, call.c_data, at);
        if (call.product.epilogue == CUBLASLT_EPILOGUE_BIAS) value += element(type, call.product.bias, row);
        set_element(type, call.d_data, at, value);
      }
}

/// Do the matrices fit together?
bool fits(const Call& call) {
  const bool ta = call.product.a == CUBLAS_OP_T, tb = call.product.b == CUBLAS_OP_T;
  const auto rows = ta ? call.a.columns : call.a.rows, inner = ta ? call.a.rows : call.a.columns;
  const auto inner_b = tb ? call.b.columns : call.b.rows, columns = tb ? call.b.rows : call.b.columns;
  return rows == call.c.rows && columns == call.c.columns && inner == inner_b && call.a.batch == call.c.batch &&
         call.b.batch == call.c.batch && call.a.type == call.c.type && call.b.type == call.c.type;
}

/// The choice that the heuristic made, within what the library keeps for itself.
struct Algorithm {
  std::uint64_t magic, workspace;
  std::uint32_t a, b, d;
};
constexpr std::uint64_t kMagic = 0xA160;

bool is_aligned(const void* data, std::uint32_t bytes) { return reinterpret_cast<std::uintptr_t>(data) % bytes == 0; }

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int handles = 0;
  *handle = reinterpret_cast<cublasLtHandle_t>(&++handles);
  return static_cast<cublasStatus_t>(machine().begin("cublasLtCreate"));
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_INITIALIZED    ? "CUBLAS_STATUS_NOT_INITIALIZED"
         : status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
         : status == CUBLAS_STATUS_INVALID_VALUE    ? "CUBLAS_STATUS_INVALID_VALUE"
                                                    : "CUBLAS_STATUS_INTERNAL_ERROR";
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Matrix{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading, 0, 1});
  return leading < static_cast<std::int64_t>(rows) ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &matrix_of(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return take(matrix_of(layout).batch, value, bytes);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return take(matrix_of(layout).stride, value, bytes);
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute, cudaDataType_t scale) {
  *description = reinterpret_cast<cublasLtMatmulDesc_t>(new Product{compute, scale});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete &product_of(description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  auto& product = product_of(description);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) return take(product.a, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) return take(product.b, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) return take(product.epilogue, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER) return take(product.bias, value, bytes);
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference());
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &preference_of(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  auto& p = preference_of(preference);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return take(p.workspace, value, bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) return take(p.a, value, bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES) return take(p.b, value, bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES) return take(p.c, value, bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES) return take(p.d, value, bytes);
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t preference,
                                              int wanted, cublasLtMatmulHeuristicResult_t results[], int* found) {
  const auto& p = preference_of(preference);
  const Algorithm algorithm{kMagic, p.workspace, p.a, p.b, p.d};
  static_assert(sizeof algorithm <= sizeof results[0].algo);
  *found = wanted > 0 ? 1 : 0;
  results[0] = {};
  std::memcpy(&results[0].algo, &algorithm, sizeof algorithm);
  return static_cast<cublasStatus_t>(machine().begin("cublasLtMatmulAlgoGetHeuristic"));
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  if (const int error = machine().begin("cublasLtMatmul"); error != 0) return CUBLAS_STATUS_EXECUTION_FAILED;
  const auto& product = product_of(description);
  const auto scale = [&](const void* at) {
    return product.scale == CUDA_R_64F ? *static_cast<const double*>(at) : static_cast<double>(*static_cast<const float*>(at));
  };
  const Call call{product, matrix_of(a_layout), matrix_of(b_layout), matrix_of(c_layout), scale(alpha), scale(beta), a, b, c, d};
  Algorithm algorithm{};
  std::memcpy(&algorithm, algo, sizeof algorithm);
  const bool chosen = algorithm.magic == kMagic && workspace_bytes >= algorithm.workspace && is_aligned(a, algorithm.a) &&
                      is_aligned(b, algorithm.b) && is_aligned(d, algorithm.d) && is_aligned(workspace, 256);
  if (!chosen || !fits(call)) return CUBLAS_STATUS_INVALID_VALUE;
  std::vector<Touch> touches{
      {a, call.a.bytes(), false}, {b, call.b.bytes(), false}, {d, call.c.bytes(), true}, {workspace, workspace_bytes, true}};
  if (product.epilogue == CUBLASLT_EPILOGUE_BIAS)
    touches.push_back({product.bias, static_cast<std::size_t>(call.c.rows) * rehearsal::size_of(call.c.dtype()), false});
  machine().ask(reinterpret_cast<Stream*>(stream), {"cublasLtMatmul", std::move(touches), [call] { multiply(call); }});
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
