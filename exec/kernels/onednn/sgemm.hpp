#pragma once
// oneDNN's product of two matrices of f32 that lie in rows.

#include <dnnl.hpp>

#include "base/error.hpp"

namespace rehearsal::exec::onednn {

/// As it is stored, `stride` elements from row to row; the product takes its transpose where it says so.
struct StridedMatrix {
  const float* first;
  std::int64_t stride;
  bool transposed = false;
};

/// What is made: rows x columns, one row behind the other, of sums over so many.
struct ProductSums {
  float* to;
  std::int64_t rows, columns, summed;
  float scale = 1;
  bool adds = false;  ///< to what is there
};

/// With as many threads as OpenMP says (ThreadScope). Throws EnvironmentFailure.
inline void multiply(const StridedMatrix& a, const StridedMatrix& b, const ProductSums& c) {
  const auto status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', c.rows, c.columns, c.summed, c.scale, a.first,
                                 a.stride, b.first, b.stride, c.adds ? 1.0F : 0.0F, c.to, c.columns);
  if (status != dnnl_success) throw EnvironmentFailure("oneDNN failed while computing a product of matrices");
}

}  // namespace rehearsal::exec::onednn
