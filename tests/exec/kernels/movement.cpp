#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/one_node.hpp"

namespace rehearsal::exec {
namespace {

using Integers = std::vector<std::int64_t>;
using Values = std::vector<double>;

}  // namespace

TEST_CASE("reshape and transpose") {
  const Array x = Array::range({2, 3});  // 0 1 2 / 3 4 5
  CHECK(result_of({"Reshape", {{"shape", Integers{3, 2}}}, {x}}).values == x.values);
  CHECK_THROWS_AS(run({"Reshape", {{"shape", Integers{4, 2}}}, {x}}), BadInput);
  CHECK_THROWS_AS(run({"Reshape", {{"shape", Integers{-1, 2}}}, {x}}), BadInput);
  CHECK(result_of({"Transpose", {}, {x}}).values == Values{0, 3, 1, 4, 2, 5});
  const Array y = result_of({"Transpose", {{"perm", Integers{1, 2, 0}}}, {Array::range({2, 2, 2})}});
  CHECK(y.values == Values{0, 4, 1, 5, 2, 6, 3, 7});  // y[j][k][i] = x[i][j][k]
  CHECK_THROWS_AS(run({"Transpose", {{"perm", Integers{0, 0}}}, {x}}), BadInput);
}

TEST_CASE("slices clamp as ONNX does, also backwards") {
  const Array x = Array::range({5});
  const auto slice = [&](std::int64_t start, std::int64_t end, std::int64_t step) {
    return run({"Slice", {{"starts", Integers{start}}, {"ends", Integers{end}}, {"steps", Integers{step}}}, {x}})[0].values;
  };
  CHECK(slice(1, 3, 1) == Values{1, 2});
  CHECK(slice(-2, 9223372036854775807, 1) == Values{3, 4});
  CHECK(slice(0, 5, 2) == Values{0, 2, 4});
  CHECK(slice(-1, -9223372036854775807, -1) == Values{4, 3, 2, 1, 0});
  CHECK(slice(3, 0, -2) == Values{3, 1});
  CHECK(slice(4, 2, 1).empty());
  CHECK_THROWS_AS(slice(0, 1, 0), BadInput);
}

TEST_CASE("the gradient of a slice is zero around it") {
  const Array dy{{2}, {7, 8}};
  CHECK(result_of({"SliceGrad", {{"starts", Integers{3}}, {"ends", Integers{0}}, {"steps", Integers{-2}}, {"shape", Integers{5}}}, {dy}})
            .values == Values{0, 8, 0, 7, 0});
}

TEST_CASE("split and concat undo each other") {
  const Array x = Array::range({2, 3});
  const auto parts = run({"Split", {{"axis", std::int64_t{1}}, {"split", Integers{1, 2}}}, {x}});
  CHECK(parts[0].values == Values{0, 3});
  CHECK(parts[1].values == Values{1, 2, 4, 5});
  CHECK(result_of({"Concat", {{"axis", std::int64_t{-1}}}, {parts[0], parts[1]}}).values == x.values);
  CHECK_THROWS_AS(run({"Split", {{"axis", std::int64_t{1}}, {"split", Integers{1, 1}}}, {x}}), BadInput);
  CHECK_THROWS_AS(run({"Concat", {{"axis", std::int64_t{0}}}, {x, parts[0]}}), BadInput);
}

TEST_CASE("expand, tile, triangles, ranges, constants") {
  CHECK(result_of({"Expand", {{"shape", Integers{2, 1, 2}}}, {Array{{2, 1}, {1, 2}}}}).values == Values{1, 1, 2, 2, 1, 1, 2, 2});
  CHECK(result_of({"Tile", {{"repeats", Integers{2, 2}}}, {Array{{1, 2}, {1, 2}}}}).values == Values{1, 2, 1, 2, 1, 2, 1, 2});
  const Array x = Array::range({2, 3}, 1);  // 1 2 3 / 4 5 6
  CHECK(result_of({"Trilu", {}, {x}}).values == Values{1, 2, 3, 0, 5, 6});
  CHECK(result_of({"Trilu", {{"upper", std::int64_t{0}}, {"k", std::int64_t{1}}}, {x}}).values == Values{1, 2, 0, 4, 5, 6});
  CHECK(run({"Range", {{"start", 5.0}, {"limit", 0.0}, {"delta", -2.0}, {"dtype", std::string("i32")}}, {}})[0].values == Values{5, 3, 1});
  CHECK(run({"ConstantOfShape", {{"shape", Integers{2}}, {"value", 1.5}}, {}})[0].values == Values{1.5, 1.5});
}

TEST_CASE("elements of every width are moved") {
  for (const DType type : {DType::Bool, DType::I8, DType::I16, DType::I32, DType::I64, DType::F32, DType::F64}) {
    CHECK(run({"Transpose", {}, {Array{{2, 2}, {1, 0, 1, 1}}}}, type)[0].values == Values{1, 1, 0, 1});
  }
}

}  // namespace rehearsal::exec
