// Rows that no model has and no gradient case: what they refuse.
#include "base/error.hpp"
#include "graph/builder.hpp"
#include "graph/ops/attention.hpp"
#include "tests/catch.hpp"
#include "tests/graph/ops/rows.hpp"

namespace rehearsal::graph {
namespace {

using Types = std::vector<std::optional<TensorType>>;
using Integers = std::vector<std::int64_t>;

std::string refusal_of(const std::string& name, Types types, Attributes attributes = {}) {
  try {
    const RowOn row(name, std::move(types), std::move(attributes));
    return "";
  } catch (const BadInput& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("noise says its shape and its stream, and is of a type that has fractions") {
  const Attributes whole{{"shape", Integers{2, 3}}, {"stream", std::int64_t{1}}, {"dtype", std::string("f64")}};
  CHECK(RowOn("Noise", Types{}, whole).shape() == Shape{2, 3});
  const auto without = [&](const char* name) {
    auto fewer = whole;
    fewer.erase(name);
    return refusal_of("Noise", {}, fewer);
  };
  CHECK(says(without("shape"), {"'shape' and 'stream'"}));
  CHECK(says(without("stream"), {"'shape' and 'stream'"}));
  auto integers = whole;
  integers.set("dtype", std::string("i64"));
  CHECK(says(refusal_of("Noise", {}, integers), {"'dtype'", "floating-point"}));
  CHECK(!refusal("Noise", {Shape{2}}, whole).empty());
}

TEST_CASE("a range has a step, an end, and no more elements than can be") {
  const auto range = [](double start, double limit, double delta) {
    return Attributes{{"start", start}, {"limit", limit}, {"delta", delta}};
  };
  CHECK(RowOn("Range", Types{}, range(1, 6, 2)).shape() == Shape{3});   // 1 3 5
  CHECK(RowOn("Range", Types{}, range(1, 7, 2)).shape() == Shape{3});   // 7 is left out
  CHECK(RowOn("Range", Types{}, range(3, 0, -1)).shape() == Shape{3});  // 3 2 1
  CHECK(RowOn("Range", Types{}, range(3, 0, 1)).shape() == Shape{0});
  CHECK(RowOn("Range", Types{}, {{"limit", 3.0}}).shape() == Shape{3});   // 0 1 2
  CHECK(RowOn("Range", Types{}, {{"start", -3.0}}).shape() == Shape{3});  // -3 -2 -1
  CHECK(says(refusal_of("Range", {}, range(0, 5, 0)), {"delta", "step"}));
  CHECK(says(refusal_of("Range", {}, range(0, 1e30, 1)), {"limit", "elements"}));
}

TEST_CASE("what is known while a graph is built is computed then, also where attributes are left out") {
  GraphBuilder builder;
  const auto values = [&](TensorId t) { return builder.value(t)->integers; };
  CHECK(values(builder.add1("Range", {}, {{"limit", 3.0}})) == Integers{0, 1, 2});
  CHECK(values(builder.add1("ConstantOfShape", {}, {{"shape", Integers{2}}, {"dtype", std::string("i64")}})) == Integers{0, 0});
  const TensorId x = builder.add_constant("x", Value::of_integers({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3}));
  CHECK(values(builder.add1("Trilu", {x})) == Integers{1, 2, 3, 0, 5, 6, 0, 0, 9});
  CHECK(values(builder.add1("Trilu", {x}, {{"upper", std::int64_t{0}}})) == Integers{1, 0, 0, 4, 5, 0, 7, 8, 9});
  CHECK(values(builder.add1("CumSum", {x})) == Integers{1, 2, 3, 5, 7, 9, 12, 15, 18});
  CHECK(values(builder.add1("Transpose", {x})) == Integers{1, 4, 7, 2, 5, 8, 3, 6, 9});
  const auto halves = builder.add("Split", {x}, {{"split", Integers{1, 2}}});
  CHECK(values(halves[1]) == Integers{4, 5, 6, 7, 8, 9});
  CHECK(values(builder.add1("Concat", {halves[1], halves[0]})) == Integers{4, 5, 6, 7, 8, 9, 1, 2, 3});
}

TEST_CASE("an update takes gradients of 16 bits for a parameter in f32, and rounds the parameter to such a type") {
  const TensorType wide{DType::F32, {2, 3}}, narrow{DType::BF16, {2, 3}}, step{DType::I64, {}};
  const Attributes rounded{{"rounded_to", std::string("bf16")}};
  const auto results = [&](Types types, const Attributes& attributes) { return schema(op("AdamUpdate")).infer({types, {}, attributes}); };
  CHECK(results({wide, narrow, step, wide, wide}, {}) == std::vector<TensorType>{wide, wide, wide});
  CHECK(results({wide, narrow, step, wide, wide}, rounded) == std::vector<TensorType>{wide, wide, wide, narrow});
  // 6 elements: parameter and states read and written in 4 bytes, gradient and rounding in 2, and the step
  CHECK(RowOn("AdamUpdate", Types{wide, narrow, step, wide, wide}, rounded).work().bytes.value() == 6 * (6 * 4 + 2 * 2) + 8);
  CHECK(says(refusal_of("AdamUpdate", {wide, TensorType{DType::BF16, {3, 2}}, step, wide, wide}), {"operand 0", "1"}));
  CHECK(says(refusal_of("AdamUpdate", {wide, TensorType{DType::F64, {2, 3}}, step, wide, wide}), {"f64"}));
  CHECK(says(refusal_of("AdamUpdate", {narrow, wide, step, narrow, narrow}), {"bf16", "f32"}));
  CHECK(says(refusal_of("AdamUpdate", {wide, narrow, step, wide, wide}, {{"rounded_to", std::string("f64")}}), {"rounded_to", "bf16"}));
  CHECK(says(refusal_of("AdamUpdate", {narrow, narrow, step, narrow, narrow}, rounded), {"rounded_to", "f32"}));
}

TEST_CASE("connectives take truths, bits take whole numbers, and choices a truth") {
  const TensorType truths{DType::Bool, {2}}, numbers{DType::F32, {2}}, integers{DType::I64, {2}};
  for (const auto* name : {"And", "Or", "Xor"}) {
    INFO(name);
    CHECK(refusal_of(name, {truths, truths}).empty());
    CHECK(says(refusal_of(name, {numbers, numbers}), {"bool"}));
  }
  CHECK(says(refusal_of("Not", {numbers}), {"bool"}));
  for (const auto* name : {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"}) {
    INFO(name);
    CHECK(refusal_of(name, {integers, integers}).empty());
    CHECK(says(refusal_of(name, {numbers, numbers}), {"integers"}));
  }
  for (const auto* name : {"Less", "Greater", "LessOrEqual", "GreaterOrEqual"}) {
    INFO(name);
    CHECK(refusal_of(name, {numbers, numbers}).empty());
    CHECK(!refusal_of(name, {numbers, integers}).empty());
    CHECK(!refusal_of(name, {numbers}).empty());
  }
  CHECK(says(refusal_of("Where", {numbers, numbers, numbers}), {"condition", "bool"}));
}

TEST_CASE("an operand that is left out is refused wherever it must be given") {
  const TensorType truths{DType::Bool, {2}}, integers{DType::I64, {2}}, numbers{DType::F32, {2, 3}}, number{DType::F64, {}};
  for (const auto* name : {"And", "Or", "Xor"}) {
    INFO(name);
    CHECK(says(refusal_of(name, {truths}), {"operand 1 is missing"}));
    CHECK(says(refusal_of(name, {truths, std::nullopt}), {"operand 1 is missing"}));
    CHECK(says(refusal_of(name, {truths, truths, truths}), {"at most 2"}));
  }
  CHECK(says(refusal_of("Not", {truths, truths}), {"at most 1"}));
  CHECK(says(refusal_of("BitwiseAnd", {integers}), {"operand 1 is missing"}));
  CHECK(says(refusal_of("BitShift", {integers, integers, integers}), {"at most 2"}));
  CHECK(says(refusal_of("Concat", {numbers, std::nullopt, numbers}), {"operand 1 is missing"}));
  CHECK(says(refusal_of("AdamUpdate", {numbers, numbers, std::nullopt, std::nullopt, numbers}), {"operand 3 is missing"}));
  CHECK(says(refusal_of("ScheduleFreeSgdUpdate", {numbers, numbers, std::nullopt, std::nullopt, number}), {"operand 3 is missing"}));
  CHECK(says(refusal_of("LarsUpdate", {numbers, numbers, number, number, std::nullopt}), {"operand 4 is missing"}));
  CHECK(says(refusal_of("AdafactorDirection", {numbers, std::nullopt, numbers}), {"operand 1 is missing"}));
  CHECK(says(refusal_of("Attention", {numbers, std::nullopt, numbers}), {"operand 1 is missing"}));
  CHECK(says(refusal_of("Attention", {numbers, numbers, TensorType{DType::F32, {2}}}), {"rows and columns"}));
}

TEST_CASE("a state is of its parameter's shape, also beside a trust ratio") {
  const TensorType whole{DType::F32, {2, 3}}, number{DType::F64, {}};
  CHECK(refusal_of("LarsUpdate", {whole, whole, number, number, whole}).empty());
  CHECK(says(refusal_of("LarsUpdate", {whole, whole, number, number, TensorType{DType::F32, {2, 3, 2}}}), {"operand 4", "[2,3]"}));
  CHECK(says(refusal_of("LarsUpdate", {whole, whole, number, number, TensorType{DType::F64, {2, 3}}}), {"operand 4", "f64"}));
}

TEST_CASE("a gradient that comes is of the shape of what it is the gradient of") {
  const TensorType x{DType::F32, {2, 3}}, number{DType::F64, {}}, indices{DType::I64, {2, 3, 1}};
  const Attributes columns{{"axes", Integers{1}}};
  CHECK(refusal_of("ReduceProdGrad", {TensorType{DType::F32, {2, 1}}, x}, columns).empty());
  CHECK(says(refusal_of("ReduceProdGrad", {TensorType{DType::F32, {2}}, x}, columns), {"operand 0", "[2,1]"}));
  CHECK(says(refusal_of("ReduceProdGrad", {TensorType{DType::F32, {1, 2, 1}}, x}, columns), {"operand 0", "[2,1]"}));
  CHECK(says(refusal_of("GatherElementsGrad", {TensorType{DType::F32, {2, 3, 1}}, indices}, {{"shape", Integers{2, 3}}}), {"[2,3]"}));
  for (const auto* name : {"SquaredErrorGrad", "AbsoluteErrorGrad", "HuberGrad", "BceWithLogitsGrad", "KlDivergenceGrad"}) {
    INFO(name);
    CHECK(refusal_of(name, {x, x, number}).empty());
    CHECK(says(refusal_of(name, {x, TensorType{DType::F32, {2, 3, 1}}, number}), {"target", "[2,3,1]"}));
    CHECK(says(refusal_of(name, {x, TensorType{DType::F64, {2, 3}}, number}), {"one element type"}));
    CHECK(says(refusal_of(name, {x, x, TensorType{DType::F32, {}}}), {"operand 2", "f64 scalar"}));
  }
  CHECK(says(refusal_of("CrossEntropyGrad", {x, TensorType{DType::I64, {2}}, TensorType{DType::F64, {1}}}), {"operand 2", "f64[1]"}));
}

TEST_CASE("images and rows have as many dimensions as kernels are written for") {
  const auto wrong = [](const std::string& name, std::size_t rank, const Attributes& attributes) {
    return refusal(name, {Shape(rank, 2)}, attributes);
  };
  const Attributes groups{{"num_groups", std::int64_t{1}}}, window{{"kernel_shape", Integers{1, 1, 1, 1}}};
  struct Ranks {
    const char* op;
    std::size_t least, most;
    Attributes attributes;
  };
  for (const auto& [op, least, most, attributes] :
       {Ranks{"BatchNormSums", 2, 5, {}}, Ranks{"GroupNormSums", 2, 5, groups}, Ranks{"LayerNormalization", 1, 8, {}},
        Ranks{"RMSNormalization", 1, 8, {}}, Ranks{"LogSumExp", 1, 8, {{"axis", std::int64_t{0}}}}, Ranks{"MaxPool", 3, 5, window}}) {
    INFO(op);
    const std::string limits = "rank " + std::to_string(least) + " to " + std::to_string(most);
    CHECK(says(wrong(op, least - 1, attributes), {limits}));
    CHECK(says(wrong(op, most + 1, attributes), {limits}));
    if (op != std::string("MaxPool")) CHECK((wrong(op, least, attributes) + wrong(op, most, attributes)).empty());
  }
  const TensorType step{DType::I64, {}};
  CHECK(says(refusal_of("OuterProducts", {TensorType{DType::F32, Shape(6, 2)}, step}), {"rank 2 to 5"}));
  CHECK(says(refusal_of("OuterProducts", {TensorType{DType::F32, {2}}, step}), {"rank 2 to 5"}));
  CHECK(refusal_of("OuterProducts", {TensorType{DType::F32, Shape(5, 2)}, step}).empty());
  CHECK(says(refusal_of("CrossEntropySum", {TensorType{DType::F32, Shape(9, 2)}, TensorType{DType::I64, Shape(8, 2)}}), {"rank 1 to 8"}));
  CHECK(refusal_of("TriangularSolve", {TensorType{DType::F32, {4, 4}}, TensorType{DType::F32, {4, 3}}}).empty());
  CHECK(says(refusal_of("TriangularSolve", {TensorType{DType::F32, {4}}, TensorType{DType::F32, {4}}}), {"last two dimensions"}));
  CHECK(RowOn("CumSum", {Shape{4}}).shape() == Shape{4});  // along the only axis
}

TEST_CASE("softmax by blocks: rows with keys, all of one type") {
  const TensorType scores{DType::F32, {2, 3, 5}}, statistics{DType::F32, {2, 3, 2}}, other{DType::F64, {2, 3, 5}};
  const RowOn softmax("BlockSoftmax", Types{scores});
  CHECK(softmax.shape(0) == scores.shape);
  CHECK(softmax.shape(1) == statistics.shape);  // maximum and sum of each row
  CHECK(says(refusal_of("BlockSoftmax", {TensorType{DType::F32, {}}}), {"last dimension"}));
  CHECK(says(refusal_of("BlockSoftmax", {TensorType{DType::I64, {2, 3}}}), {"floating point"}));
  CHECK(RowOn("RowDot", Types{scores, scores}).shape() == Shape{2, 3, 1});
  CHECK(says(refusal_of("RowDot", {scores, other}), {"one element type"}));
  CHECK(refusal_of("MergeBlocks", {scores, statistics, scores, statistics}).empty());
  for (std::size_t i = 1; i < 4; ++i) {
    Types wrong{scores, statistics, scores, statistics};
    wrong[i]->dtype = DType::F64;
    CHECK(says(refusal_of("MergeBlocks", wrong), {"operand " + std::to_string(i)}));
  }
  CHECK(!refusal_of("MergeBlocks", {scores, statistics, scores}).empty());
}

TEST_CASE("the largest and the smallest are of axes that have elements") {
  for (const auto* name : {"ArgMax", "ArgMin"}) {
    INFO(name);
    CHECK(RowOn(name, Types{TensorType{DType::F32, {2, 3}}}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}}).shape() ==
          Shape{2});
    CHECK(says(refusal(name, {Shape{2, 0}}, {{"axis", std::int64_t{1}}}), {"no elements along axis 1"}));
    CHECK(!refusal(name, {Shape{2}, Shape{2}}).empty());
  }
  CHECK(says(refusal("ReduceMax", {Shape{2, 0}}, {{"axes", Integers{1}}}), {"no elements along axis 1"}));
  CHECK(RowOn("ReduceSum", Types{TensorType{DType::F32, {2, 0}}}, {{"axes", Integers{1}}, {"keepdims", std::int64_t{0}}}).shape() ==
        Shape{2});
}

TEST_CASE("running statistics are of as many channels as their sums") {
  const TensorType sums{DType::F64, {2, 3}}, channels{DType::F32, {3}};
  const Attributes count{{"count", std::int64_t{8}}, {"momentum", 0.1}};
  CHECK(refusal_of("BatchNormRunning", {sums, channels, channels}, count).empty());
  CHECK(says(refusal_of("BatchNormRunning", {sums, channels, TensorType{DType::F32, {4}}}, count), {"running variance"}));
  CHECK(says(refusal_of("BatchNormRunning", {TensorType{DType::F64, {2, 4}}, channels, channels}, count), {"statistics"}));
  CHECK(says(refusal_of("BatchNormRunning", {TensorType{DType::F32, {2, 3}}, channels, channels}, count), {"f64"}));
  CHECK(says(refusal_of("BatchNormRunning", {sums, channels, TensorType{DType::F64, {3}}}, count), {"one element type"}));
  CHECK(says(refusal_of("BatchNormRunning", {sums, channels, channels}), {"count"}));
  CHECK(!refusal_of("BatchNormRunning", {sums, channels}, count).empty());
}

TEST_CASE("attention says which of queries, keys, values and steps does not suit") {
  const auto of = [](Shape q, Shape k, Shape v, Attributes attributes = {}) {
    return refusal("Attention", {std::move(q), std::move(k), std::move(v)}, std::move(attributes));
  };
  CHECK(RowOn("Attention", {Shape{2, 4, 3}, Shape{2, 5, 3}, Shape{2, 5, 6}}).shape() == Shape{2, 4, 6});
  CHECK(RowOn("Attention", {Shape{2, 4, 3}, Shape{2, 3, 5}, Shape{2, 5, 6}}, {{"keys_last", std::int64_t{1}}}).shape() == Shape{2, 4, 6});
  CHECK(says(of({4}, {5, 3}, {5, 6}), {"rows and columns"}));
  CHECK(says(of({4, 3}, {5, 2}, {5, 6}), {"do not multiply"}));
  CHECK(says(of({4, 3}, {5, 3}, {4, 6}), {"values", "5 keys"}));
  CHECK(says(of({4, 3}, {5, 3}, {5, 6}, {{"guarded", std::int64_t{3}}}), {"'guarded'"}));
  CHECK(says(of({4, 3}, {5, 3}, {5, 6}, {{"guarded", std::int64_t{-1}}}), {"'guarded'"}));
  CHECK(says(of({4, 3}, {5, 3}, {5, 6}, {{"steps", Integers{0, -1}}, {"numbers", std::vector<double>{1}}}), {"three integers"}));
  CHECK(says(of({4, 3}, {5, 3}, {5, 6}, {{"steps", Integers{99, -1, 0}}, {"numbers", std::vector<double>{1}}}), {"kind of step"}));
  CHECK(says(refusal("Attention", {Shape{4, 3}, Shape{5, 3}}), {"queries, keys and values"}));
}

TEST_CASE("a step of attention reads an operand that is there, where its kind has one") {
  const auto of = [](Integers step, std::size_t others) {
    Types operands(3 + others, TensorType{DType::F32, {4, 4}});
    return refusal_of("Attention", operands, {{"steps", std::move(step)}, {"numbers", std::vector<double>{1}}});
  };
  CHECK(of({2, 0, 0}, 1).empty());
  CHECK(says(of({2, 1, 0}, 1), {"names operand 1 of 1"}));
  CHECK(says(of({3, -1, 0}, 2), {"names operand -1 of 2"}));
  CHECK(says(of({1, 0, 0}, 1), {"names operand 0 of 1"}));  // a division reads none
  CHECK(says(of({5, -1, 0}, 1), {"names no kind"}));
}

TEST_CASE("attention without attributes is plain") {
  const Types operands(4, TensorType{DType::F32, {4, 4}});
  const auto problem = [&](const Attributes& attributes) { return attention_problem({operands, {}, attributes}, 0); };
  const auto plain = problem({});
  CHECK((!plain.causal && !plain.keys_last && plain.guard == AttentionProblem::Guard::None));
  CHECK((plain.ratio == 0 && plain.stream == 0 && plain.steps.empty()));
  CHECK(problem({{"causal", std::int64_t{1}}}).causal);
  CHECK(problem({{"guarded", std::int64_t{2}}}).guard == AttentionProblem::Guard::AllHidden);
  // Dropout is there where it has a stream, and half of it where no ratio is given.
  CHECK(problem({{"ratio", 0.25}}).ratio == 0);
  CHECK(problem({{"stream", std::int64_t{7}}}).ratio == 0.5);
  CHECK(problem({{"stream", std::int64_t{7}}, {"ratio", 0.25}}).stream == 7);
  const auto step = problem({{"steps", Integers{2, 0, 1}}, {"numbers", std::vector<double>{3}}}).steps.at(0);
  CHECK((step.kind == AttentionStep::Kind::Add && step.number == 3 && step.operand == 0 && step.differentiated));
}

TEST_CASE("operands of attention are broadcast by strides of 0") {
  const Types operands{TensorType{DType::F32, {2, 3, 4, 6}}, TensorType{DType::F32, {3, 5, 6}}, TensorType{DType::F32, {3, 5, 7}}};
  const AttentionProblem p = attention_problem({operands, {}, {}}, 0);
  const Shape batch{2, 3};
  CHECK(p.matrices() == 6);
  // One matrix of 4 x 6 for each of 2 x 3; one of 5 x 6 for each of 3, whatever stands before.
  const auto queries = attention_strides(p, {2, 3, 4, 6}, true), keys = attention_strides(p, {3, 5, 6}, true);
  CHECK(queries.batch == Integers{72, 24});
  CHECK(keys.batch == Integers{0, 30});
  CHECK(queries.offset(5, batch) == 72 + 2 * 24);
  CHECK(keys.offset(5, batch) == 2 * 30);
  // A mask of scores: a row of 5 keys for each of 3, or a number a row for all.
  const auto by_key = attention_strides(p, {3, 1, 5}, false), by_row = attention_strides(p, {4, 1}, false);
  CHECK(by_key.batch == Integers{0, 5});
  CHECK((by_key.row == 0 && by_key.key == 1));
  CHECK(by_row.batch == Integers{0, 0});
  CHECK((by_row.row == 1 && by_row.key == 0));
  const auto whole = attention_strides(p, {2, 3, 4, 5}, false);
  CHECK((whole.batch == Integers{60, 20} && whole.row == 5 && whole.key == 1));
  CHECK_THROWS_WITH(attention_strides(p, {3, 4, 4}, false), contains("[3,4,4]") && contains("[2,3,4,5]"));
  CHECK_THROWS_WITH(attention_strides(p, {1, 2, 3, 4, 5}, false), contains("more dimensions than the scores"));
}

TEST_CASE("attention computes two products forward and five backward, and what happens to scores between them") {
  // Pairs of 4 queries and 5 keys in 2 matrices; depth 3, width 6; 9 operations of the softmax, one of each step.
  const double pairs = 2 * 4 * 5;
  const Attributes one{{"steps", Integers{0, -1, 0}}, {"numbers", std::vector<double>{0.5}}};
  CHECK(RowOn("Attention", {Shape{2, 4, 3}, Shape{2, 5, 3}, Shape{2, 5, 6}}).work().flops.value() == pairs * (2 * (3 + 6) + 9));
  CHECK(RowOn("Attention", {Shape{2, 4, 3}, Shape{2, 5, 3}, Shape{2, 5, 6}}, one).work().flops.value() == pairs * (2 * (3 + 6) + 10));
  // Backward: scores again, and gradients of queries and keys, of depth 3; of values and weights, of width 6; and half as much again
  // between.
  CHECK(RowOn("AttentionGrad", {Shape{2, 4, 6}, Shape{2, 4, 3}, Shape{2, 5, 3}, Shape{2, 5, 6}}).work().flops.value() ==
        pairs * (2 * (3 * 3 + 2 * 6) + 1.5 * 9));
}

}  // namespace rehearsal::graph
