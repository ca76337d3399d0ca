#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/one_node.hpp"

namespace rehearsal::exec {
namespace {

using Values = std::vector<double>;
const std::int64_t kYes = 1;

/// The definition, one element after another.
Values product(const Array& a, const Array& b) {
  const std::int64_t m = a.shape[0], k = a.shape[1], n = b.shape[1];
  Values c(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t p = 0; p < k; ++p)
        c[static_cast<std::size_t>(i * n + j)] +=
            a.values[static_cast<std::size_t>(i * k + p)] * b.values[static_cast<std::size_t>(p * n + j)];
    }
  }
  return c;
}

Array transposed(const Array& a) {
  const Array result = run({"Transpose", {}, {a}})[0];
  return {result.shape, result.values};
}

}  // namespace

TEST_CASE("a product by hand") {
  // [1 2; 3 4] [5 6; 7 8] = [19 22; 43 50]
  const Array a{{2, 2}, {1, 2, 3, 4}}, b{{2, 2}, {5, 6, 7, 8}};
  CHECK(result_of({"MatMul", {}, {a, b}}).values == Values{19, 22, 43, 50});
  // 2 A B - C with C = [1 1] in every row
  CHECK(result_of({"Gemm", {{"alpha", 2.0}, {"beta", -1.0}}, {a, b, Array{{2}, {1, 1}}}}).values == Values{37, 43, 85, 99});
}

TEST_CASE("sizes that no block divides, in every way of storing") {
  const Array a = Array::range({37, 70}, -3, 0.01), b = Array::range({70, 1031}, 2, -0.001);
  const Values expected = product(a, b);
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      graph::Attributes flags;
      if (ta) flags.set("trans_a", kYes);
      if (tb) flags.set("trans_b", kYes);
      CHECK(close(result_of({"MatMul", flags, {ta ? transposed(a) : a, tb ? transposed(b) : b}}).values, expected));
    }
  }
}

TEST_CASE("vectors and batches follow NumPy") {
  const Array v{{2}, {1, 10}}, m{{2, 3}, {1, 2, 3, 4, 5, 6}};
  CHECK(result_of({"MatMul", {}, {v, m}}).values == Values{41, 52, 63});
  CHECK(result_of({"MatMul", {}, {v, v}}).shape.empty());
  CHECK(result_of({"MatMul", {}, {v, v}}).values == Values{101});
  CHECK(result_of({"MatMul", {}, {transposed(m), v}}).values == Values{41, 52, 63});
  // [2,1,1,2] x [3,2,1] = [2,3,1,1]: every pair of (row of a, column of b)
  const Array batch = result_of({"MatMul", {}, {Array{{2, 1, 1, 2}, {1, 0, 0, 1}}, Array{{3, 2, 1}, {1, 2, 3, 4, 5, 6}}}});
  CHECK(batch.shape == graph::Shape{2, 3, 1, 1});
  CHECK(batch.values == Values{1, 3, 5, 2, 4, 6});
  CHECK_THROWS_AS(run({"MatMul", {}, {m, m}}), BadInput);
}

TEST_CASE("a product over nothing is zero") {
  CHECK(result_of({"MatMul", {}, {Array{{2, 0}, {}}, Array{{0, 2}, {}}}}).values == Values{0, 0, 0, 0});
}

}  // namespace rehearsal::exec
