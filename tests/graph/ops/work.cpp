// What nodes cost, counted by hand: operations, a multiply-add being two, and bytes that must move.
#include "graph/noise_scale.hpp"
#include "tests/catch.hpp"
#include "tests/graph/ops/rows.hpp"

namespace rehearsal::graph {
namespace {

using Types = std::vector<std::optional<TensorType>>;
using Sizes = std::vector<std::int64_t>;

TensorType f32(Shape shape) { return {DType::F32, std::move(shape)}; }
TensorType f64(Shape shape) { return {DType::F64, std::move(shape)}; }
TensorType i64(Shape shape) { return {DType::I64, std::move(shape)}; }

void costs(const std::string& op, const Types& operands, const Attributes& attributes, double flops, double bytes) {
  INFO(op << " " << attributes.to_text());
  const Work work = RowOn(op, operands, attributes).work();
  CHECK(work.flops.value() == Approx(flops));
  CHECK(work.bytes.value() == Approx(bytes));
}

}  // namespace

TEST_CASE("the largest few: every element meets every level of a heap of them") {
  // 24 elements and a heap of one level, of two (k = 2 and 3), of three (k = 4); values in 4 bytes, positions in 8.
  costs("TopK", {f32({4, 6})}, {{"k", std::int64_t{1}}}, 24 * 1, 4 * 24 + 4 * (4 + 8));
  costs("TopK", {f32({4, 6})}, {{"k", std::int64_t{2}}}, 24 * 2, 4 * 24 + 8 * (4 + 8));
  costs("TopK", {f32({4, 6})}, {{"k", std::int64_t{3}}}, 24 * 2, 4 * 24 + 12 * (4 + 8));
  costs("TopK", {f32({4, 6})}, {{"k", std::int64_t{4}}}, 24 * 3, 4 * 24 + 16 * (4 + 8));
}

TEST_CASE("matrices that are balanced: a sum and a division an element, for columns and then in turn for rows and columns") {
  // 3 iterations of columns and 2 of rows between them; 3 matrices of 4 elements.
  costs("Sinkhorn", {f32({3, 2, 2})}, {{"iterations", std::int64_t{3}}}, 5 * 2 * 12, 2 * 4 * 12);
  costs("Sinkhorn", {f32({3, 2, 2})}, {}, 1 * 2 * 12, 2 * 4 * 12);
  costs("SinkhornGrad", {f32({3, 2, 2}), f32({3, 2, 2})}, {{"iterations", std::int64_t{2}}}, 3 * 2 * 12, 3 * 4 * 12);
}

TEST_CASE("the delta rule: two products a chunk, and triangles that are solved") {
  // 3 chunks of 2 tokens, 4 features and 5 columns: W S and K^T V, 2 * 4 * 5 multiply-adds each.
  const double states = 3 * 4 * 5, tokens = 3 * 2;
  costs("DeltaScan", {f32({3, 2, 4}), f32({3, 2, 4}), f32({3, 2, 5}), f32({3, 1, 1})}, {}, 3 * 2 * 2 * (2 * 4 * 5),
        4 * (tokens * (4 + 4 + 5 + 5) + 3 + states));
  // Rows 0 to 3 of a triangle hold 0 + 1 + 2 + 3 elements: so many multiply-adds a column, for 3 columns of 2 matrices.
  costs("TriangularSolve", {f32({2, 4, 4}), f32({2, 4, 3})}, {}, 2 * 6 * 3 * 2, 4 * (32 + 24 + 24));
}

TEST_CASE("gradients of normalization, an element at a time") {
  const TensorType x = f32({4, 3, 5}), channel = f32({3}), sums = f64({2, 3});
  const Attributes count{{"count", std::int64_t{20}}};
  const double n = 4 * 3 * 5, of_sums = 8 * 6, of_channel = 4 * 3;
  // The normalized x is a difference and a product. Its product with dy, and two sums: 5.
  costs("BatchNormGradSums", {x, sums, x}, count, 5 * n, 4 * 2 * n + 2 * of_sums);
  // dx = (dy - a - b x normalized) c, with a, b and c of the channel: 2 for x, a product, two differences, a product.
  costs("BatchNormGradInput", {x, sums, channel, x, sums}, count, 6 * n, 4 * 3 * n + 2 * of_sums + of_channel);
  costs("BatchNormApply", {x, sums, channel, channel}, count, 2 * n, 4 * 2 * n + of_sums + 2 * of_channel);
  costs("BatchNormGradParameters", {sums, channel}, {}, 0, of_sums + 3 * of_channel);
  costs("BatchNormInferenceGradInput", {x, channel, channel}, {}, n, 4 * 2 * n + 2 * of_channel);
  costs("BatchNormInferenceGradParameters", {x, channel, channel, x}, {}, 5 * n, 4 * 2 * n + 4 * of_channel);
  // As the sums of a channel, and dy times the scale before.
  const Attributes one_group{{"num_groups", std::int64_t{1}}, {"count", std::int64_t{15}}};
  const TensorType group_sums = f64({2, 4, 1});
  costs("GroupNormGradSums", {x, group_sums, channel, x}, one_group, 6 * n, 4 * 2 * n + 2 * 8 * 8 + of_channel);
  costs("GroupNormGradInput", {x, group_sums, channel, x, group_sums}, one_group, 6 * n, 4 * 3 * n + 2 * 8 * 8 + of_channel);
  // Of rows: two sums of five operations on the way, and what batch normalization does with them.
  const TensorType rows = f32({6, 8}), row = f32({6, 1}), scale = f32({8});
  costs("LayerNormalizationGradInput", {rows, row, row, rows, scale}, {}, 10 * 48, 4 * (3 * 48 + 2 * 6 + 8));
  costs("LayerNormalizationGradParameters", {rows, row, row, rows}, {}, 5 * 48, 4 * (2 * 48 + 2 * 6 + 2 * 8));
  costs("RMSNormalization", {rows, scale}, {}, 4 * 48, 4 * (2 * 48 + 6 + 8));
  costs("RMSNormalizationGradInput", {rows, row, rows, scale}, {}, 10 * 48, 4 * (3 * 48 + 6 + 8));
  costs("RMSNormalizationGradParameters", {rows, row, rows}, {}, 5 * 48, 4 * (2 * 48 + 6 + 8));
}

TEST_CASE("cross-entropy: five operations a score, or two a label where the totals are known") {
  const TensorType scores = f32({4, 6}), labels = i64({4}), totals = f64({4}), number = f64({});
  costs("LogSumExp", {scores}, {}, 5 * 24, 4 * 24 + 8 * 4);
  costs("CrossEntropySum", {scores, labels}, {}, 5 * 24, 4 * 24 + 8 * 4 + 8);
  // A difference and a sum; of the scores only those of the labels are read.
  costs("CrossEntropySum", {scores, labels, std::nullopt, totals}, {}, 2 * 4, 8 * 4 + 8 * 4 + 4 * 4);
  // Smoothed, all classes count.
  costs("CrossEntropySum", {scores, labels, std::nullopt, totals}, {{"label_smoothing", 0.1}}, 5 * 24, 4 * 24 + 8 * 4 + 8 * 4 + 8);
  costs("CrossEntropyGrad", {scores, labels, number, std::nullopt, totals}, {}, 5 * 24, 2 * 4 * 24 + 8 * 4 + 8 + 8 * 4);
  costs("CrossEntropyWeight", {labels}, {}, 0, 8 * 4 + 8);
  // A difference, its function, which is about two, and the sum; backward the factor in place of the sum.
  for (const std::string name : {"SquaredError", "AbsoluteError", "Huber", "BceWithLogits", "KlDivergence"}) {
    costs(name + "Sum", {scores, scores}, {}, 4 * 24, 2 * 4 * 24 + 8);
    costs(name + "Grad", {scores, scores, number}, {}, 4 * 24, 3 * 4 * 24 + 8);
  }
}

TEST_CASE("interpolation: a multiply-add for every tap of every axis, at the larger size") {
  const auto with = [](const char* mode, Sizes sizes) { return Attributes{{"mode", std::string(mode)}, {"sizes", std::move(sizes)}}; };
  const TensorType x = f32({1, 2, 3, 5});  // 30 elements to 2 * 7 * 4 = 56
  costs("Resize", {x}, with("nearest", {7, 4}), 0, 4 * (30 + 56));
  costs("Resize", {x}, with("linear", {7, 4}), 2 * (2 + 2) * 56, 4 * (30 + 56));
  costs("Resize", {x}, with("cubic", {7, 4}), 2 * (4 + 4) * 56, 4 * (30 + 56));
  costs("Resize", {f32({1, 1, 8})}, with("linear", {4}), 2 * 2 * 8, 4 * (8 + 4));
  Attributes back = with("linear", {7, 4});
  back.set("shape", Sizes{3, 5});
  costs("ResizeGrad", {f32({1, 2, 7, 4})}, back, 2 * (2 + 2) * 56, 4 * (30 + 56));
  costs("Pad", {x}, {{"pads", Sizes{1, 2}}}, 0, 4 * (30 + 48));
}

TEST_CASE("pools: an operation for every tap of every window") {
  const Attributes halves{{"kernel_shape", Sizes{2, 3}}, {"strides", Sizes{2, 3}}};
  const TensorType x = f32({1, 2, 4, 6}), y = f32({1, 2, 2, 2});  // 8 windows of 6
  costs("MaxPool", {x}, halves, 8 * 6, 4 * (48 + 8));
  costs("AveragePool", {x}, halves, 8 * 6, 4 * (48 + 8));
  costs("MaxPoolGrad", {x, y}, halves, 8 * 6, 4 * (48 + 8 + 48));
  costs("MaxPoolPositions", {x}, halves, 8 * 6, 4 * 48 + 8 * 8);
  Attributes back = halves;
  back.set("shape", Sizes{4, 6});
  costs("AveragePoolGrad", {y}, back, 8 * 6, 4 * (48 + 8));
}

TEST_CASE("softmax, whole and block by block") {
  const TensorType scores = f32({2, 3, 5}), statistics = f32({2, 3, 2}), row = f32({2, 3, 1});
  // Maximum, difference, exponential (4), sum, quotient; backward a product and its sum, a difference, a product.
  costs("Softmax", {scores}, {}, 8 * 30, 4 * 60);
  costs("LogSoftmaxGrad", {scores, scores}, {}, 4 * 30, 4 * 90);
  costs("BlockSoftmax", {scores}, {}, 9 * 30, 4 * (60 + 12));                                         // and what is masked is found
  costs("MergeBlocks", {scores, statistics, scores, statistics}, {}, 3 * 30, 4 * (3 * 30 + 3 * 12));  // two products and a sum
  costs("BlockWeights", {scores, statistics}, {}, 5 * 30, 4 * (60 + 12));
  costs("RowDot", {scores, scores}, {}, 2 * 30, 4 * (60 + 6));
  costs("BlockSoftmaxGrad", {scores, scores, row}, {}, 2 * 30, 4 * (90 + 6));
}

TEST_CASE("rows that pick and put move what is picked, both ways") {
  costs("Gather", {f32({50, 4}), i64({3})}, {}, 0, 2 * 4 * 12 + 8 * 3);
  costs("GatherElements", {f32({50, 4}), i64({3, 4})}, {}, 0, 2 * 4 * 12 + 8 * 12);
  costs("GatherND", {f32({50, 4}), i64({3, 1})}, {}, 0, 2 * 4 * 12 + 8 * 3);
  costs("ScatterND", {f32({50, 4}), i64({3, 1}), f32({3, 4})}, {}, 0, 2 * 4 * 200 + 8 * 3 + 4 * 12);
  costs("ScatterElements", {f32({50, 4}), i64({3, 4}), f32({3, 4})}, {}, 0, 2 * 4 * 200 + 8 * 12 + 4 * 12);
}

TEST_CASE("decompositions and products of features are shared by the steps between them") {
  const Attributes every{{"interval", std::int64_t{10}}};
  const double moved = 4 * 3 * 45 + 8;  // previous results, matrices and results, and the step
  const TensorType matrices = f32({5, 3, 3}), step = i64({});
  costs("InverseRoot", {matrices, matrices, step}, every, (9 + 2) * 27 * 5 / 10., moved / 10);
  costs("EigenBasis", {matrices, matrices, step}, every, (2 + 8. / 3) * 27 * 5 / 10., moved / 10);
  costs("DampedInverse", {f32({4, 4}), f32({4, 4}), step, f32({3, 3})}, {{"interval", std::int64_t{2}}, {"damping", 0.1}},
        (1. / 3 + 2) * 64 / 2, (4 * (3 * 16 + 9) + 8) / 2.);
  // 6 positions of 5 features: 25 products, of which a mirror image is not computed again; 24 windows of 2 x 2 x 3 pixels.
  costs("OuterProducts", {f32({2, 3, 5}), step}, {{"interval", std::int64_t{3}}}, 6 * 25 / 3., (4 * (30 + 25) + 8) / 3.);
  costs("OuterProducts", {f32({2, 2, 4, 6}), step}, {{"kernel_shape", Sizes{2, 3}}}, 2 * 12 * 12 * 12, 4 * (96 + 144) + 8);
}

TEST_CASE("sums of squares, and sums of two vectors by what they have in common") {
  costs("SquaredNorm", {f32({2, 3})}, {}, 2 * 6, 4 * 6 + 8);
  costs(std::string(kSquaresOfParts), {f32({2, 3})}, {{"samples", std::int64_t{4}}}, 2 * 6, 4 * 6 + 8 * 4);
  // a a, a b and b b: three multiply-adds for each of 12 places.
  costs("AdaptiveSumProducts", {f32({2, 3, 4})}, {}, 3 * 2 * 12, 4 * 24 + 8 * 3);
  costs("AdaptiveSum", {f32({2, 3, 4}), f64({3})}, {}, 3 * 12, 4 * (24 + 12) + 8 * 3);
  costs("RotaryEmbedding", {f32({3, 4}), f32({4}), f32({4})}, {}, 3 * 12, 4 * (12 + 4 + 4 + 12));
  costs("Det", {f32({2, 3, 3})}, {}, 2 * 2. / 3 * 27, 4 * (18 + 2));
}

}  // namespace rehearsal::graph
