// Bodies of GPU kernels that add up: norms, softmax, losses, reductions, pools. On shapes that take more than one team, more than one part
// of a sum, and rows that are shorter and longer than a team.
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/compared.hpp"

namespace rehearsal::exec {
namespace {

using Integers = std::vector<std::int64_t>;
using Values = std::vector<double>;
const double kNan = std::nan("");

graph::Attributes with(graph::Attributes attributes, const char* key, graph::AttributeValue value) {
  attributes.set(key, std::move(value));
  return attributes;
}
graph::Attributes axis(std::int64_t value) { return {{"axis", value}}; }

/// Sums and sums of squares of statistics with mean 0.1 and variance 0.5, more or less.
Array sums(graph::Shape shape, std::int64_t count) {
  Array array = numbers(std::move(shape), 3);
  const std::size_t half = array.values.size() / 2;
  for (std::size_t i = 0; i < array.values.size(); ++i)
    array.values[i] = static_cast<double>(count) * ((i < half ? 0.1 : 0.6) + 0.1 * array.values[i]);
  array.dtype = DType::F64;
  return array;
}

/// Labels in [0, classes), every seventh ignored.
Array labels(graph::Shape shape, std::int64_t classes, DType type = DType::I64) {
  Array array = numbers(std::move(shape), 5);
  for (std::size_t i = 0; i < array.values.size(); ++i)
    array.values[i] = i % 7 == 3 ? -100 : std::floor((array.values[i] + 1) / 2.001 * static_cast<double>(classes));
  array.dtype = type;
  return array;
}

Array near_one(graph::Shape shape) {
  Array array = numbers(std::move(shape), 2);
  for (double& v : array.values) v = 1 + v / 16;
  return array;
}

/// Numbers of which many are equal.
Array coarse(graph::Shape shape) {
  Array array = numbers(std::move(shape), 4);
  for (double& v : array.values) v = std::floor(v * 8);
  return array;
}

std::int64_t product(const graph::Shape& shape, std::size_t first) {
  std::int64_t count = 1;
  for (std::size_t d = first; d < shape.size(); ++d) count *= shape[d];
  return count;
}

}  // namespace

TEST_CASE("rows are normalized alike whatever their length") {
  // 111 rows: gradients of parameters in 3 parts
  for (const std::int64_t length : {1, 5, 129, 1031}) {
    const graph::Shape shape{37, 3, length}, rows{37, 3, 1};
    const Array x = numbers(shape), dy = numbers(shape, 2), scale = numbers({length}, 3), bias = numbers({length}, 4);
    const Array mean = numbers(rows, 5), inverse = positive(rows, 6);
    compare({"LayerNormalization", with(axis(-1), "epsilon", 0.01), {x, scale, bias}});
    compare({"LayerNormalization", with(axis(-1), "epsilon", 0.01), {x}});
    compare({"LayerNormalizationGradInput", axis(-1), {x, mean, inverse, dy, scale}});
    compare({"LayerNormalizationGradInput", axis(-1), {x, mean, inverse, dy}});
    compare({"LayerNormalizationGradParameters", axis(-1), {x, mean, inverse, dy}});
    compare({"RMSNormalization", with(axis(-1), "epsilon", 0.01), {x, scale}});
    compare({"RMSNormalizationGradInput", axis(-1), {x, inverse, dy, scale}});
    compare({"RMSNormalizationGradParameters", axis(-1), {x, inverse, dy}});
  }
  compare({"LayerNormalization", axis(1), {numbers({4, 3, 50}), numbers({3, 50}, 2)}});
  compare({"LayerNormalization", axis(-1), {Array{{0, 3}, {}}}});
}

TEST_CASE("a mean that is large beside the deviation leaves a row's digits") {
  // 1000 + {-1, 1}: deviation 1, whatever is added
  const auto y = run({"LayerNormalization", {{"epsilon", 0.0}}, {Array{{1, 4}, {999, 1001, 999, 1001}}}}, DType::F32)[0].values;
  CHECK(y == Values{-1, 1, -1, 1});
}

TEST_CASE("softmax along every axis") {
  struct Case {
    graph::Shape shape;
    std::int64_t axis;
  };
  // a team for a line; a thread for a short one; threads side by side; teams for few long lines whose elements lie apart
  for (const auto& [shape, along] : {Case{{9, 1031}, -1}, Case{{33, 5}, 1}, Case{{5, 13, 7}, 1}, Case{{2, 1030, 3}, 1}}) {
    for (const char* op : {"Softmax", "LogSoftmax"}) {
      compare({op, axis(along), {numbers(shape)}});
      compare({std::string(op) + "Grad", axis(along), {numbers(shape, 2), op[0] == 'S' ? positive(shape, 3) : numbers(shape, 3)}});
    }
  }
}

TEST_CASE("a row of softmax that is hidden gets no gradient where none arrives") {
  const Array dy{{3, 2}, {0, 0, 0, 1, 0, 0}}, y{{3, 2}, {kNan, kNan, kNan, kNan, 0.5, kNan}};
  const auto dx = run({"SoftmaxGrad", {}, {dy, y}})[0].values;
  CHECK(Values(dx.begin(), dx.begin() + 2) == Values{0, 0});
  for (std::size_t i = 2; i < 6; ++i) CHECK(std::isnan(dx[i]));
}

TEST_CASE("cross-entropy in all its ways") {
  struct Case {
    graph::Shape scores, items;
    std::int64_t classes;
  };
  for (const auto& [shape, items, classes] :
       {Case{{37, 129}, {37}, 129}, Case{{3, 11, 10}, {3, 10}, 11}, Case{{60, 3}, {60}, 3}, Case{{300, 17, 70}, {300, 70}, 17}}) {
    const Array scores = numbers(shape), weights = positive({classes}, 2), target = labels(items, classes), scale = scalar(0.5, DType::F64);
    Array totals = numbers(items, 6);
    for (double& v : totals.values) v = v / 10 + std::log(static_cast<double>(classes));
    totals.dtype = DType::F64;
    compare({"LogSumExp", {}, {scores}});
    for (const double smoothing : {0.0, 0.1}) {
      const graph::Attributes smooth{{"label_smoothing", smoothing}};
      for (const auto& weight : {std::optional<Array>(), std::optional(weights)}) {
        compare({"CrossEntropySum", smooth, {scores, target, weight, totals}});
        compare({"CrossEntropySum", smooth, {scores, target, weight}});
        compare({"CrossEntropySum", with(smooth, "log_probabilities", std::int64_t{1}), {scores, target, weight}});
        compare({"CrossEntropyGrad", smooth, {scores, target, scale, weight, totals}});
        compare({"CrossEntropyGrad", smooth, {scores, target, scale, weight}});
        compare({"CrossEntropyGrad", with(smooth, "log_probabilities", std::int64_t{1}), {scores, target, scale, weight}});
      }
    }
    compare({"CrossEntropyWeight", {}, {target, weights}});
    compare({"CrossEntropyWeight", {{"ignore_index", std::int64_t{1}}}, {labels(items, classes, DType::I32)}});
  }
}

TEST_CASE("rows of an odd number of classes, each of which begins elsewhere in a group of elements") {
  const std::int64_t items = 5, classes = 33001;  // two groups and more for each thread of the largest team
  const Array scores = numbers({items, classes}), target = labels({items}, classes), scale = scalar(0.5, DType::F64);
  compare({"LogSumExp", {}, {scores}});
  compare({"CrossEntropyGrad", {}, {scores, target, scale}});
}

TEST_CASE("a row is added to rows of any length") {
  for (const std::int64_t length : {1, 5, 133, 136})
    for (const char* op : {"Add", "Mul", "Sub"}) {
      compare({op, {}, {numbers({3, 37, length}), numbers({length}, 2)}});
      compare({op, {}, {numbers({1, length}, 2), numbers({37, length})}});
    }
  compare({"Add", {}, {numbers({2, 16, 5, 7}), numbers({16, 1, 1}, 2)}});
  compare({"Mul", {}, {numbers({2, 3, 5, 7}), numbers({2, 3, 1, 1}, 2)}});
}

TEST_CASE("images are joined and taken apart in either order") {
  compare({"Concat", {{"axis", std::int64_t{1}}}, {numbers({2, 3, 5, 4}), numbers({2, 6, 5, 4}, 2)}}, Accuracy::Exact);
  compare({"Split", {{"axis", std::int64_t{-3}}, {"split", Integers{3, 6}}}, {numbers({2, 9, 5, 4})}}, Accuracy::Exact);
  for (const std::int64_t kept : {0, 1})
    compare({"ReduceSum", {{"axes", Integers{2, -1}}, {"keepdims", kept}, {"scale", 0.25}}, {numbers({2, 24, 5, 7})}});
}

TEST_CASE("a block of classes counts its own scores, the first one the total") {
  const Array scores = numbers({37, 5}), target = labels({37}, 13), weights = positive({13}, 2), scale = scalar(2, DType::F64);
  Array totals = Array::range({37}, 2, 0.01);
  totals.dtype = DType::F64;
  for (const std::int64_t first : {0, 4}) {
    const Block block{{0, first}, {37, 13}}, items{{0}, {37}}, all{{0}, {13}}, none{{}, {}};
    for (const double smoothing : {0.0, 0.2}) {
      const graph::Attributes smooth{{"label_smoothing", smoothing}};
      compare({"CrossEntropySum", smooth, {scores, target, std::nullopt, totals}, {}, {block, items, none, items}, {none}});
      compare(
          {"CrossEntropyGrad", smooth, {scores, target, scale, weights, totals}, {}, {block, items, none, all, items}, {block}, {{37, 5}}});
    }
  }
}

TEST_CASE("a label that is no class is found by every kernel that reads one") {
  const Array scores = numbers({2, 3}), high{{2}, {0, 3}, DType::I64}, low{{2}, {-1, 0}, DType::I32};
  CHECK_THROWS_AS(run({"CrossEntropySum", {}, {scores, high}}), BadInput);
  CHECK_THROWS_AS(run({"CrossEntropySum", {}, {scores, low}}), BadInput);
  CHECK_THROWS_AS(run({"CrossEntropyGrad", {}, {scores, high, scalar(1, DType::F64)}}), BadInput);
}

TEST_CASE("losses of elements over more than one part of a sum") {
  const graph::Shape shape{131, 167};
  const Array x = numbers(shape), t = positive(shape, 2), scale = scalar(0.25, DType::F64);
  for (const char* loss : {"SquaredError", "AbsoluteError", "Huber", "BceWithLogits", "KlDivergence"}) {
    const graph::Attributes delta{{"delta", 0.3}};
    compare({std::string(loss) + "Sum", delta, {x, t}});
    compare({std::string(loss) + "Grad", delta, {x, t, scale}});
    compare({std::string(loss) + "Sum", {}, {Array{{0}, {}}, Array{{0}, {}}}});
  }
}

TEST_CASE("images are normalized by channels whatever their size") {
  // rows shorter than 32 elements, without space, of some teams' elements, and sums of more than one part
  for (const graph::Shape& shape : {graph::Shape{7, 6, 3, 3}, graph::Shape{64, 6}, graph::Shape{4, 6, 8, 9}, graph::Shape{5, 2, 61, 67},
                                    graph::Shape{3, 40, 19, 17}, graph::Shape{2, 1, 5, 7}}) {
    const std::int64_t channels = shape[1], count = shape[0] * product(shape, 2);
    const graph::Attributes counted{{"count", count}, {"epsilon", 0.01}};
    const Array x = numbers(shape), dy = numbers(shape, 2), scale = numbers({channels}, 3), bias = numbers({channels}, 4);
    const Array mean = numbers({channels}, 5), variance = positive({channels}, 6), s = sums({2, channels}, count),
                g = sums({2, channels}, 3);
    compare({"BatchNormSums", {}, {x}});
    compare({"BatchNormApply", counted, {x, s, scale, bias}});
    compare({"BatchNormGradSums", counted, {x, s, dy}});
    compare({"BatchNormGradInput", counted, {x, s, scale, dy, g}});
    compare({"BatchNormGradParameters", {}, {g, scale}});
    compare({"BatchNormRunning", with(counted, "momentum", 0.7), {s, mean, variance}});
    compare({"BatchNormInference", {{"epsilon", 0.01}}, {x, scale, bias, mean, variance}});
    compare({"BatchNormInferenceGradInput", {{"epsilon", 0.01}}, {dy, scale, variance}});
    compare({"BatchNormInferenceGradParameters", {{"epsilon", 0.01}}, {x, mean, variance, dy}});
  }
}

TEST_CASE("images are normalized by groups whatever their size") {
  for (const graph::Shape& shape : {graph::Shape{7, 6, 3, 3}, graph::Shape{64, 6}, graph::Shape{4, 6, 8, 9}, graph::Shape{2, 4, 61, 67}}) {
    const std::int64_t channels = shape[1], groups = 2, count = channels / groups * product(shape, 2);
    const graph::Attributes counted{{"num_groups", groups}, {"count", count}, {"epsilon", 0.01}};
    const Array x = numbers(shape), dy = numbers(shape, 2), scale = numbers({channels}, 3), bias = numbers({channels}, 4);
    const Array s = sums({2, shape[0], groups}, count), g = sums({2, shape[0], groups}, 3);
    compare({"GroupNormSums", {{"num_groups", groups}}, {x}});
    compare({"GroupNormApply", counted, {x, s, scale, bias}});
    compare({"GroupNormGradSums", counted, {x, s, scale, dy}});
    compare({"GroupNormGradInput", counted, {x, s, scale, dy, g}});
    compare({"GroupNormGradParameters", counted, {x, s, dy}});
  }
}

TEST_CASE("reductions over every kind of axes") {
  const graph::Shape shape{3, 40, 5, 50};
  const Array x = numbers(shape), factors = near_one({3, 4, 5, 6});
  for (const Integers& axes : {Integers{0}, {1}, {2}, {3}, {0, 2}, {1, 3}, {0, 2, 3}, {1, 2}, {0, 1, 2, 3}, {}}) {
    for (const char* op : {"ReduceSum", "ReduceMax", "ReduceMin"}) compare({op, {{"axes", axes}}, {x}});
    compare({"ReduceSum", {{"axes", axes}, {"keepdims", std::int64_t{0}}, {"scale", 0.125}}, {x}});
    compare({"ReduceProd", {{"axes", axes}}, {factors}});
  }
  // columns by whole groups, by two and by one, in parts
  for (const std::int64_t columns : {264, 130, 67, 3}) compare({"ReduceSum", {{"axes", Integers{0}}}, {numbers({1100, columns})}});
  // parts: pieces of one row, some rows each, interleaved rows of columns, rows of two dimensions
  compare({"ReduceSum", {}, {numbers({20011})}});
  compare({"ReduceSum", {{"axes", Integers{0, 2}}}, {numbers({61, 2, 401})}});
  compare({"ReduceMax", {{"axes", Integers{0}}}, {numbers({300, 37})}});
  compare({"ReduceSum", {{"axes", Integers{0, 2}}}, {numbers({4, 5, 90, 3})}});
  compare({"ReduceSum", {{"axes", Integers{0}}}, {Array{{0, 3}, {}}}});
  for (const DType type : {DType::I32, DType::I64}) {
    const OneNode node{"ReduceSum", {{"axes", Integers{0}}}, {coarse({300, 37})}};
    CHECK(run(node, type)[0].values == run_reference(node, type)[0].values);
  }
}

TEST_CASE("the gradient of a product by columns and by rows, with none, one and more zeros") {
  Array x = near_one({6, 70, 5});
  x.values[0] = x.values[350] = x.values[351] = x.values[700] = x.values[705] = 0;
  compare({"ReduceProdGrad", {{"axes", Integers{1}}}, {numbers({6, 1, 5}), x}});
  compare({"ReduceProdGrad", {{"axes", Integers{1, 2}}}, {numbers({6, 1, 1}), x}});
}

TEST_CASE("positions and running sums of lines of every kind") {
  const std::int64_t yes = 1;
  struct Case {
    graph::Shape shape;
    std::int64_t axis;
  };
  for (const auto& [shape, along] : {Case{{9, 1031}, 1}, Case{{9, 1031}, 0}, Case{{5, 13, 7}, 1}, Case{{2, 1030, 3}, 1}}) {
    for (const char* op : {"ArgMax", "ArgMin"}) {
      compare({op, axis(along), {coarse(shape)}}, Accuracy::Exact);
      compare({op, with(axis(along), "select_last_index", yes), {coarse(shape)}}, Accuracy::Exact);
    }
    compare({"CumSum", axis(along), {numbers(shape)}});
    compare({"CumSum", with(axis(along), "reverse", yes), {numbers(shape)}});
    compare({"CumSum", with(axis(along), "exclusive", yes), {numbers(shape)}});
  }
  // NaN is beaten by nothing where it comes first, and beats nothing elsewhere
  CHECK(run({"ArgMax", axis(1), {Array{{2, 3}, {kNan, 1, 2, 1, kNan, 2}}}})[0].values == Values{0, 2});
  compare({"SquaredNorm", {}, {numbers({131, 67})}});
}

TEST_CASE("pools of every rank, and their gradients") {
  const auto windows = [](Integers kernel, Integers strides, Integers pads) {
    return graph::Attributes{{"kernel_shape", std::move(kernel)}, {"strides", std::move(strides)}, {"pads", std::move(pads)}};
  };
  const std::int64_t yes = 1;
  struct Case {
    graph::Shape shape;
    graph::Attributes attributes;
  };
  const std::vector<Case> cases{{{2, 3, 33}, windows({3}, {2}, {1, 0})},
                                {{2, 3, 17, 19}, windows({3, 3}, {2, 2}, {1, 1, 1, 1})},
                                {{2, 3, 17, 19}, windows({3, 2}, {1, 3}, {0, 1, 2, 0})},
                                {{2, 3, 17, 19}, with(windows({3, 3}, {2, 1}, {1, 1, 1, 1}), "dilations", Integers{2, 3})},
                                {{2, 3, 18, 18}, with(windows({3, 3}, {2, 2}, {0, 0, 0, 0}), "ceil_mode", yes)},
                                {{1, 2, 7, 8, 9}, windows({2, 3, 2}, {2, 1, 1}, {0, 1, 0, 1, 1, 1})},
                                {{2, 300, 7, 7}, windows({7, 7}, {1, 1}, {0, 0, 0, 0})},
                                {{2, 16, 9, 8}, windows({3, 3}, {2, 2}, {1, 1, 1, 1})}};
  for (const auto& [shape, attributes] : cases) {
    const Array x = numbers(shape);
    const graph::Shape pooled = run_reference({"MaxPool", attributes, {x}})[0].shape;
    compare({"MaxPool", attributes, {x}}, Accuracy::Exact);
    compare({"MaxPoolPositions", attributes, {x}}, Accuracy::Exact);
    compare({"MaxPoolPositions", with(attributes, "column_major", yes), {x}}, Accuracy::Exact);
    compare({"MaxPoolGrad", attributes, {x, numbers(pooled, 2)}});
    for (const std::int64_t pad : {0, 1}) {
      const graph::Attributes counted = with(attributes, "count_include_pad", pad);
      compare({"AveragePool", counted, {x}});
      compare({"AveragePoolGrad", with(counted, "shape", Integers(shape.begin() + 2, shape.end())), {numbers(pooled, 2)}});
    }
  }
}

TEST_CASE("the gradient of a block of a pool is that of its own rows") {
  // rows 4 to 11 of 16 are here; rows 5 to 9 of the gradient are this block's. Windows of 3: 6 rows of them.
  const Block image{{0, 0, 4, 0}, {1, 2, 16, 9}}, windows{{0, 0, 4, 0}, {1, 2, 14, 9}}, mine{{0, 0, 5, 0}, {1, 2, 16, 9}};
  const graph::Attributes attributes{{"kernel_shape", Integers{3, 3}}, {"pads", Integers{0, 1, 0, 1}}};
  compare({"MaxPoolGrad", attributes, {numbers({1, 2, 8, 9}), numbers({1, 2, 6, 9}, 2)}, {}, {image, windows}, {mine}, {{1, 2, 5, 9}}});
}

namespace {

/// Operands by place, and a result, that are a number or two for a row: in f32 where the others have 16 bits, as a Program has them.
struct RowTensors {
  std::vector<std::size_t> operands;
  std::optional<std::size_t> result;
  std::vector<graph::Shape> results;  ///< shapes of all
};

void compare_with_rows(const OneNode& node, const RowTensors& rows) {
  for (const DType type : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    INFO(node.op << " in " << name(type));
    const DType of_rows = size_of(type) == 2 ? DType::F32 : type;
    OneNode mixed = node;
    mixed.output_shapes = rows.results;
    for (const std::size_t i : rows.operands) mixed.inputs[i]->dtype = of_rows;
    if (rows.result) {
      mixed.output_types.assign(*rows.result, type);
      mixed.output_types.push_back(of_rows);
    }
    mixed = rounded(mixed, type);
    OneNode exact = mixed;
    for (const std::size_t i : rows.operands) exact.inputs[i]->dtype.reset();
    exact.output_types.clear(), exact.output_shapes.clear();
    const auto found = run(mixed, type), expected = run_reference(exact);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(close(found[i].values, expected[i].values, found[i].dtype == DType::F64 ? 1e-12 : size_of(type) == 4 ? 2e-5 : 0x1p-6));
  }
}

}  // namespace

TEST_CASE("attention block by block, in every type") {
  const graph::Shape shape{37, 3, 70}, rows{37, 3, 1}, kept{37, 3, 2};
  Array scores = numbers(shape), a = positive(kept, 4), b = positive(kept, 5);
  // a row that sees nothing of this block
  for (std::size_t i = 140; i < 210; ++i) scores.values[i] = -std::numeric_limits<double>::infinity();
  a.values[4] = -std::numeric_limits<double>::infinity(), a.values[5] = 0;
  compare_with_rows({"BlockSoftmax", {}, {scores}}, {{}, 1, {shape, kept}});
  compare_with_rows({"MergeBlocks", {}, {numbers(shape), a, numbers(shape, 2), b}}, {{1, 3}, 1, {shape, kept}});
  compare_with_rows({"BlockWeights", {}, {numbers(shape), b}}, {{1}, std::nullopt, {shape}});
  compare_with_rows({"RowDot", {}, {numbers(shape), numbers(shape, 2)}}, {{}, 0, {rows}});
  compare_with_rows({"BlockSoftmaxGrad", {}, {numbers(shape), positive(shape, 2), numbers(rows, 3)}}, {{2}, std::nullopt, {shape}});
}

}  // namespace rehearsal::exec
