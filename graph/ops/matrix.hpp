#pragma once
// How the shapes of a matrix product are read: by its rows and by its kernels.

#include "graph/attributes.hpp"
#include "graph/shape.hpp"

namespace rehearsal::graph {

/// One factor as it is stored.
struct StoredMatrix {
  Shape batch;                 ///< leading dimensions
  bool transposed = false;     ///< the last two dimensions are exchanged in memory
  bool vector_is_row = false;  ///< a factor of rank 1 stands for a row (first factor) or a column (second factor)
};

/// op(A) [m, k] times op(B) [k, n].
struct MatrixProduct {
  StoredMatrix a, b;
  std::int64_t m = 1, n = 1, k = 1;
};

/// As NumPy's matmul, with attributes trans_a and trans_b. Throws BadInput naming both shapes when they do not multiply.
[[nodiscard]] MatrixProduct matrix_product(const Shape& a, const Shape& b, const Attributes& attributes);

}  // namespace rehearsal::graph
