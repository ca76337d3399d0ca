#include "graph/ops/matrix.hpp"

#include <string>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::graph {
namespace {

struct Read {
  StoredMatrix matrix;
  std::int64_t rows, columns;  ///< of op(matrix)
};

Read read_factor(const Shape& shape, bool transposed, bool is_first) {
  if (shape.empty())
    throw BadInput("operand " + std::to_string(is_first ? 0 : 1) + " is a scalar, a factor of a matrix product must have a dimension");
  if (shape.size() == 1) {
    StoredMatrix vector{{}, false, is_first};
    return is_first ? Read{vector, 1, shape[0]} : Read{vector, shape[0], 1};
  }
  std::int64_t rows = shape[shape.size() - 2], columns = shape.back();
  if (transposed) std::swap(rows, columns);
  return {{Shape(shape.begin(), shape.end() - 2), transposed, false}, rows, columns};
}

}  // namespace

MatrixProduct matrix_product(const Shape& a, const Shape& b, const Attributes& attributes) {
  const Read first = read_factor(a, attributes.integer("trans_a", 0) != 0, true);
  const Read second = read_factor(b, attributes.integer("trans_b", 0) != 0, false);
  if (first.columns != second.rows) {
    throw BadInput("shapes " + to_text(a) + " and " + to_text(b) + " do not multiply: " + std::to_string(first.columns) + " columns meet " +
                   std::to_string(second.rows) + " rows");
  }
  return {first.matrix, second.matrix, first.rows, second.columns, first.columns};
}

}  // namespace rehearsal::graph
