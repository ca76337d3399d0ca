// Shapes, labels, work and refusals of elementwise rows, products, reductions, and rows that move or pick elements.
#include "graph/ops/indexing.hpp"
#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/graph/ops/rows.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;

namespace {

using Sizes = std::vector<std::int64_t>;
using Types = std::vector<std::optional<TensorType>>;
TensorType f32(Shape shape) { return {DType::F32, std::move(shape)}; }
TensorType f64(Shape shape) { return {DType::F64, std::move(shape)}; }
TensorType i64(Shape shape) { return {DType::I64, std::move(shape)}; }

std::string refused(const std::string& name, const Types& types, const Attributes& attributes = {}) {
  try {
    const RowOn row(name, types, attributes);
    return "";
  } catch (const BadInput& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("dimensions that are broadcast have no label") {
  const SplitRule add = RowOn("Add", {{{2, 1, 3}}, {{4, 3}}}).labels();
  CHECK(text_of(add.inputs[0]) == "0 - 2");
  CHECK(text_of(add.inputs[1]) == "1 2");
  CHECK(text_of(add.outputs[0]) == "0 1 2");
  CHECK(text_of(add.kinds) == "PPP");
  // A dimension of size 1 cannot be split, broadcast or not.
  const SplitRule thin = RowOn("Add", {{{2, 1}}, {{2, 1}}}).labels();
  CHECK(text_of(thin.inputs[0]) == "0 -");
  CHECK(text_of(thin.outputs[0]) == "0 -");
}

TEST_CASE("elementwise work is a few operations an element, and every operand and result once through memory") {
  const RowOn add("Add", {{{2, 1, 3}}, {{4, 3}}});
  CHECK(add.shape() == Shape{2, 4, 3});
  CHECK(add.work().flops.value() == 24);
  CHECK(add.work().bytes.value() == 4 * (6 + 12 + 24));
  CHECK(RowOn("Clip", {{{2, 3}}}, {{"min", 0.0}}).work().bytes.value() == 4 * (6 + 6));
}

TEST_CASE("labels of a matrix product: batch, rows, columns, and the sum") {
  const RowOn product("MatMul", {{{5, 4, 3}}, {{3, 6}}});
  CHECK(product.shape() == Shape{5, 4, 6});
  CHECK(text_of(product.labels().inputs[0]) == "0 1 3");
  CHECK(text_of(product.labels().inputs[1]) == "3 2");
  CHECK(text_of(product.labels().outputs[0]) == "0 1 2");
  CHECK(text_of(product.labels().kinds) == "PPPS");
  CHECK(product.work().flops.value() == 2 * 5 * 4 * 6 * 3);
  CHECK(product.work().bytes.value() == 4 * (60 + 18 + 120));
  const SplitRule row = RowOn("MatMul", {{{1, 3}}, {{3, 6}}}).labels(), column = RowOn("MatMul", {{{4, 3}}, {{3, 1}}}).labels();
  CHECK(text_of(row.inputs[0]) == "- 2");
  CHECK(text_of(row.outputs[0]) == "- 1");
  CHECK(text_of(column.inputs[1]) == "2 -");
  CHECK(text_of(column.outputs[0]) == "0 -");
  const SplitRule vectors = RowOn("MatMul", {{{3}}, {{3, 6}}}).labels(), dot = RowOn("MatMul", {{{3}}, {{3}}}).labels();
  CHECK(text_of(vectors.inputs[0]) == "2");
  CHECK(text_of(vectors.outputs[0]) == "1");
  CHECK(text_of(dot.outputs[0]).empty());
  CHECK(text_of(dot.inputs[1]) == "2");
  const SplitRule behind = RowOn("MatMul", {{{4, 3}}, {{3}}}).labels();
  CHECK(text_of(behind.inputs[1]) == text_of(behind.inputs[0]).substr(2));  // the vector is what is summed over
  CHECK(text_of(behind.outputs[0]) == "0");
  CHECK(text_of(RowOn("MatMul", {{{4, 2}}, {{2, 3}}}).labels().outputs[0]) == "0 1");
}

TEST_CASE("Gemm adds a matrix that broadcasts to the product, once") {
  const RowOn gemm("Gemm", {{{3, 4}}, {{6, 3}}, {{6}}}, {{"trans_a", std::int64_t{1}}, {"trans_b", std::int64_t{1}}});
  CHECK(gemm.shape() == Shape{4, 6});
  CHECK(text_of(gemm.labels().inputs[0]) == "2 0");
  CHECK(text_of(gemm.labels().inputs[1]) == "1 2");
  CHECK(text_of(gemm.labels().inputs[2]) == "1");
  CHECK(gemm.work().flops.value() == 2 * 4 * 6 * 3 + 4 * 6);
  CHECK(RowOn("Gemm", {{{4, 3}}, {{3, 6}}}).labels().inputs.size() == 2);
  CHECK(says(refusal("Gemm", {{{4, 3}}, {{3, 6}}, {{5}}}), {"[5]", "do not broadcast"}));
  CHECK(says(refusal("Gemm", {{{4, 3}}, {{3, 6}}, {{1, 4, 6}}}), {"operand 2"}));
  CHECK(says(refusal("Gemm", {{{2, 4, 3}}, {{3, 6}}}), {"operand 0", "rank 2"}));
  CHECK(says(refusal("Gemm", {{{4, 3}}, {{2, 3, 6}}}), {"operand 1", "rank 2"}));
}

TEST_CASE("what products refuse") {
  CHECK(says(refusal("MatMul", {{{4, 3}}, {{4, 6}}}), {"[4,3]", "[4,6]"}));
  CHECK(says(refused("MatMul", {f32({4, 3}), f64({3, 6})}), {"operand 1", "f64", "f32"}));
  CHECK(says(refusal("Det", {{{2, 3, 4}}}), {"[2,3,4]", "must be equal"}));
  CHECK(says(refusal("Det", {{{3}}}), {"[3]"}));
  CHECK(says(refused("Det", {i64({3, 3})}), {"floating point"}));
  CHECK(RowOn("Det", {{{2, 3, 3}}}).shape() == Shape{2});
}

TEST_CASE("reductions sum over their labels; kept dimensions have none") {
  const RowOn kept("ReduceSum", {{{2, 3, 4}}}, {{"axes", Sizes{1}}});
  CHECK(kept.shape() == Shape{2, 1, 4});
  CHECK(text_of(kept.labels().inputs[0]) == "0 1 2");
  CHECK(text_of(kept.labels().outputs[0]) == "0 - 2");
  CHECK(text_of(kept.labels().kinds) == "PSP");
  CHECK(kept.work().flops.value() == 24);
  const RowOn gone("ReduceMax", {{{2, 3, 4}}}, {{"axes", Sizes{-1, 0}}, {"keepdims", std::int64_t{0}}});
  CHECK(gone.shape() == Shape{3});
  CHECK(text_of(gone.labels().outputs[0]) == "1");
  CHECK(text_of(gone.labels().kinds) == "MPM");
  CHECK(RowOn("ReduceSum", {{{2, 3}}}, {{"keepdims", std::int64_t{0}}}).shape().empty());
  CHECK(says(refusal("ReduceSum", {{{2, 3}}}, {{"axes", Sizes{2}}}), {"2"}));
  CHECK(says(refusal("ReduceSum", {{{2, 3}}}, {{"axes", Sizes{1, -1}}}), {"axes"}));
  CHECK(says(refusal("ReduceMax", {{{2, 0}}}, {{"axes", Sizes{1}}}), {"no elements along axis 1"}));
  CHECK(RowOn("ReduceMax", {{{2, 0}}}, {{"axes", Sizes{0}}}).shape() == Shape{1, 0});
  CHECK(says(refused("ReduceSum", {i64({2, 3})}, {{"scale", 0.5}}), {"floating point"}));
  CHECK(refused("ReduceSum", {i64({2, 3})}).empty());
}

TEST_CASE("an index counts from the front, or from behind") {
  CHECK(resolved_index(3, 4) == 3);
  CHECK(resolved_index(-4, 4) == 0);
  CHECK_THROWS_WITH(resolved_index(4, 4), "index 4 lies outside a dimension of size 4");
  CHECK_THROWS_WITH(resolved_index(-5, 4), "index -5 lies outside a dimension of size 4");
}

TEST_CASE("slices, repetitions and triangles keep the labels of dimensions that stay whole") {
  const RowOn tile("Tile", {{{2, 1, 3}}}, {{"repeats", Sizes{1, 4, 2}}});
  CHECK(tile.shape() == Shape{2, 4, 6});
  CHECK(text_of(tile.labels().inputs[0]) == "0 - 2");
  CHECK(text_of(tile.labels().outputs[0]) == "0 - -");
  CHECK(text_of(tile.labels().kinds) == "PPO");
  const RowOn grad("SliceGrad", {{{2, 2, 4}}}, {{"shape", Sizes{2, 3, 4}}, {"starts", Sizes{1}}, {"ends", Sizes{3}}, {"axes", Sizes{1}}});
  CHECK(grad.shape() == Shape{2, 3, 4});
  CHECK(text_of(grad.labels().kinds) == "POP");
  const RowOn backwards("SliceGrad", {{{2, 3}}},
                        {{"shape", Sizes{2, 3}}, {"starts", Sizes{2}}, {"ends", Sizes{-9}}, {"axes", Sizes{1}}, {"steps", Sizes{-1}}});
  CHECK(text_of(backwards.labels().kinds) == "PO");
  // Backwards from 1 to 2 there is nothing.
  CHECK(RowOn("Slice", {{{2, 3}}}, {{"starts", Sizes{1}}, {"ends", Sizes{2}}, {"axes", Sizes{1}}, {"steps", Sizes{-1}}}).shape() == Shape{2, 0});
  CHECK(text_of(RowOn("Trilu", {{{5, 3, 4}}}).labels().kinds) == "POO");
  CHECK(says(refusal("Trilu", {{{4}}}), {"two dimensions"}));
  CHECK(refusal("Trilu", {{{4, 3}}}).empty());
  CHECK(says(refusal("SliceGrad", {{{2, 3}}}, {{"shape", Sizes{2, 3}}, {"starts", Sizes{0}}, {"ends", Sizes{2}}, {"axes", Sizes{1}}}),
             {"[2,2]"}));
  CHECK(says(refusal("Tile", {{{2, 3}}}, {{"repeats", Sizes{2}}}), {"repeats"}));
  CHECK(says(refusal("Tile", {{{2}}}, {{"repeats", Sizes{-1}}}), {"repeats"}));
}

TEST_CASE("what changes of shape refuse") {
  CHECK(says(refusal("Reshape", {{{2, 3}}}, {{"shape", Sizes{4, 2}}}), {"[2,3]", "[4,2]"}));
  CHECK(says(refusal("Reshape", {{{2, 3}}}, {{"shape", Sizes{-1, 6}}}), {"none negative"}));
  CHECK(says(refusal("Reshape", {{{2, 3}}}), {"shape", "missing"}));
  CHECK(says(refusal("Transpose", {{{2, 3}}}, {{"perm", Sizes{0, 0}}}), {"perm", "2 axes once"}));
  CHECK(RowOn("Transpose", {{{2, 3, 4}}}).shape() == Shape{4, 3, 2});
  CHECK(says(refusal("Split", {{{2, 6}}}, {{"axis", std::int64_t{1}}, {"split", Sizes{2, 3}}}), {"add up to 6", "axis 1"}));
  CHECK(says(refusal("Split", {{{2, 6}}}, {{"axis", std::int64_t{1}}, {"split", Sizes{7, -1}}}), {"split"}));
  CHECK(says(refusal("Concat", {{{2, 3}}, {{3, 3}}}, {{"axis", std::int64_t{1}}}), {"operand 1", "except along axis 1"}));
  CHECK(says(refusal("Concat", {{{2, 3}}, {{2}}}, {{"axis", std::int64_t{1}}}), {"operand 1"}));
  CHECK(says(refused("Concat", {f32({2}), f64({2})}), {"operand 1", "f64"}));
  CHECK(RowOn("Concat", {{{2, 3}}, {{2, 4}}, {{2, 1}}}, {{"axis", std::int64_t{1}}}).shape() == Shape{2, 8});
  CHECK(says(refusal("Slice", {{{4}}}, {{"starts", Sizes{0}}, {"ends", Sizes{2}}, {"steps", Sizes{0}}}), {"steps"}));
  CHECK(RowOn("Slice", {{{7}}}, {{"starts", Sizes{1}}, {"ends", Sizes{9}}, {"steps", Sizes{2}}}).shape() == Shape{3});   // 1 3 5
  CHECK(RowOn("Slice", {{{7}}}, {{"starts", Sizes{5}}, {"ends", Sizes{0}}, {"steps", Sizes{-2}}}).shape() == Shape{3});  // 5 3 1
  CHECK(RowOn("Slice", {{{7}}}, {{"starts", Sizes{5}}, {"ends", Sizes{2}}}).shape() == Shape{0});
  // From behind the end: 6 5 4 3, and 6 to 0.
  const auto backwards = [](std::int64_t end) {
    return Attributes{{"starts", Sizes{100}}, {"ends", Sizes{end}}, {"steps", Sizes{-1}}};
  };
  CHECK(RowOn("Slice", {{{7}}}, backwards(2)).shape() == Shape{4});
  CHECK(RowOn("Slice", {{{7}}}, backwards(-100)).shape() == Shape{7});
  CHECK(RowOn("Slice", {{{7}}}, backwards(-1)).shape() == Shape{0});
}

TEST_CASE("rows that pick by index: shapes, labels, work and what they refuse") {
  const RowOn gather("Gather", Types{f32({5, 4}), i64({2, 3})}, {{"axis", std::int64_t{1}}});
  CHECK(gather.shape() == Shape{5, 2, 3});
  // The gradient adds up what the indices picked: twice a read of what comes, the indices, and the result.
  const RowOn back("GatherGrad", Types{f32({5, 2, 3}), i64({2, 3})}, {{"axis", std::int64_t{1}}, {"shape", Sizes{5, 4}}});
  CHECK(back.shape() == Shape{5, 4});
  CHECK(back.work().flops.value() == 30);
  CHECK(back.work().bytes.value() == 2 * 4 * 30 + 8 * 6 + 4 * 20);
  CHECK(text_of(back.labels().kinds).substr(0, 3) == "PSS");
  const RowOn elements("GatherElements", Types{f32({5, 4}), i64({5, 2})}, {{"axis", std::int64_t{1}}});
  CHECK(elements.shape() == Shape{5, 2});
  const RowOn elements_back("GatherElementsGrad", Types{f32({5, 2}), i64({5, 2})}, {{"axis", std::int64_t{1}}, {"shape", Sizes{5, 4}}});
  CHECK(elements_back.shape() == Shape{5, 4});
  CHECK(says(refused("GatherElementsGrad", {f32({5, 2}), i64({5, 3})}, {{"axis", std::int64_t{1}}, {"shape", Sizes{5, 4}}}),
             {"[5,2]", "[5,3]"}));
  CHECK(RowOn("GatherND", Types{f32({5, 4, 3}), i64({7, 2})}).shape() == Shape{7, 3});
  for (const char* name : {"Gather", "GatherElements", "GatherND"}) {
    INFO(name);
    CHECK(says(refused(name, {f32({5, 4}), f32({5, 2})}, {{"axis", std::int64_t{1}}}), {"operand 1"}));
    CHECK(says(refused(name, {f32({5, 4})}), {"operand 1 is missing"}));
    CHECK(says(refused(name, {f32({5, 4}), i64({5, 2}), f32({1})}), {"at most 2"}));
  }
  for (const char* name : {"GatherGrad", "GatherElementsGrad"}) {
    INFO(name);
    const Attributes shape{{"axis", std::int64_t{1}}, {"shape", Sizes{5, 4}}};
    CHECK(says(refused(name, {f32({5, 2}), f32({5, 2})}, shape), {"operand 1"}));
    CHECK(says(refused(name, {i64({5, 2}), i64({5, 2})}, shape), {"floating point"}));
    CHECK(says(refused(name, {f32({5, 2})}, shape), {"operand 1 is missing"}));
  }
}
