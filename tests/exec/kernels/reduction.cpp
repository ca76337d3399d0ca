#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/one_node.hpp"

namespace rehearsal::exec {
namespace {

using Integers = std::vector<std::int64_t>;
using Values = std::vector<double>;
const std::int64_t kYes = 1, kNo = 0;

}  // namespace

TEST_CASE("sums over each axis of 0 1 2 / 3 4 5") {
  const Array x = Array::range({2, 3});
  CHECK(result_of({"ReduceSum", {{"axes", Integers{0}}}, {x}}).values == Values{3, 5, 7});
  CHECK(result_of({"ReduceSum", {{"axes", Integers{-1}}, {"keepdims", kNo}}, {x}}).values == Values{3, 12});
  CHECK(result_of({"ReduceSum", {}, {x}}).shape == graph::Shape{1, 1});
  CHECK(result_of({"ReduceSum", {{"keepdims", kNo}, {"scale", 1.0 / 6}}, {x}}).values == Values{2.5});  // the mean
  CHECK(result_of({"ReduceSum", {{"axes", Integers{}}}, {x}}).values == x.values);
  CHECK_THROWS_AS(run({"ReduceSum", {{"axes", Integers{1, -1}}}, {x}}), BadInput);
  CHECK_THROWS_AS(run({"ReduceSum", {{"axes", Integers{2}}}, {x}}), BadInput);
}

TEST_CASE("extrema and products") {
  const Array x{{2, 3}, {-1, -5, -2, 4, 0, 4}};
  CHECK(result_of({"ReduceMax", {{"axes", Integers{1}}, {"keepdims", kNo}}, {x}}).values == Values{-1, 4});
  CHECK(result_of({"ReduceMin", {{"axes", Integers{0}}, {"keepdims", kNo}}, {x}}).values == Values{-1, -5, -2});
  CHECK(result_of({"ReduceProd", {{"axes", Integers{1}}, {"keepdims", kNo}}, {x}}).values == Values{-10, 0});
  CHECK(std::isnan(run({"ReduceMax", {}, {Array{{5}, {1, std::numeric_limits<double>::quiet_NaN(), 2, 3, 4}}}})[0].values[0]));
  CHECK(run({"ReduceMax", {}, {Array{{3}, {-7, -9, -8}}}}, DType::I64)[0].values == Values{-7});
  CHECK_THROWS_AS(run({"ReduceMax", {}, {Array{{0}, {}}}}), BadInput);
}

TEST_CASE("a sum of many small numbers keeps its digits in f32") {
  const std::int64_t n = 100000;
  const Array x{{n}, Values(static_cast<std::size_t>(n), 0.1)};
  const double exact = static_cast<double>(n) * static_cast<double>(0.1F);
  CHECK(run({"ReduceSum", {}, {x}}, DType::F32)[0].values[0] == static_cast<double>(static_cast<float>(exact)));
}

TEST_CASE("the gradient of a product that holds zeros") {
  // products of the others: {2, 0, 5} -> 0, 10, 0; {0, 3, 0} -> 0, 0, 0
  const Array dy{{2, 1}, {1, 1}}, x{{2, 3}, {2, 0, 5, 0, 3, 0}};
  CHECK(result_of({"ReduceProdGrad", {{"axes", Integers{1}}}, {dy, x}}).values == Values{0, 10, 0, 0, 0, 0});
}

TEST_CASE("positions of extrema, first or last of equals") {
  const Array x{{2, 4}, {1, 7, 7, 0, 3, 3, 2, 2}};
  CHECK(run({"ArgMax", {{"axis", kYes}}, {x}})[0].values == Values{1, 0});
  CHECK(run({"ArgMax", {{"axis", kYes}, {"select_last_index", kYes}}, {x}})[0].values == Values{2, 1});
  CHECK(run({"ArgMin", {{"axis", std::int64_t{0}}, {"keepdims", kNo}}, {x}})[0].values == Values{0, 1, 1, 0});
}

TEST_CASE("running sums in both directions") {
  const Array x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  CHECK(result_of({"CumSum", {{"axis", kYes}}, {x}}).values == Values{1, 3, 6, 4, 9, 15});
  CHECK(result_of({"CumSum", {{"axis", kYes}, {"reverse", kYes}}, {x}}).values == Values{6, 5, 3, 15, 11, 6});
  CHECK(result_of({"CumSum", {{"axis", std::int64_t{0}}, {"exclusive", kYes}}, {x}}).values == Values{0, 0, 0, 1, 2, 3});
}

}  // namespace rehearsal::exec
