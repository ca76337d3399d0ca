#include <cmath>

#include "tests/catch.hpp"
#include "tests/exec/kernels/one_node.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using Values = std::vector<double>;

namespace {

graph::Attributes statistics(std::int64_t count, double epsilon = 0) { return {{"count", count}, {"epsilon", epsilon}}; }
Array sums(graph::Shape shape, Values values) { return {std::move(shape), std::move(values), DType::F64}; }

graph::Attributes grouped(std::int64_t groups, std::int64_t count) { return {{"num_groups", groups}, {"count", count}, {"epsilon", 0.0}}; }

}  // namespace

TEST_CASE("batch statistics are sums of each channel over batch and space") {
  // channel 0: 0 1 4 5 -> sum 10, squares 0 + 1 + 16 + 25 = 42; channel 1: 2 3 6 7 -> 18, 4 + 9 + 36 + 49 = 98
  CHECK(result_of({"BatchNormSums", {}, {Array::range({2, 2, 2})}}).values == Values{10, 18, 42, 98});
  // without spatial axes: columns 0 2 and 1 3
  CHECK(result_of({"BatchNormSums", {}, {Array::range({2, 2})}}).values == Values{2, 4, 4, 10});
}

TEST_CASE("batch normalization with the statistics of more elements than are here") {
  // count 4 with sum 8 and squares 32: mean 2, variance 8 - 4 = 4; y = (x - 2) / 2 * 3 + 1 for x = 0, 4: -2, 4
  CHECK(close(
      result_of({"BatchNormApply", statistics(4), {Array{{1, 1, 2}, {0, 4}}, sums({2, 1}, {8, 32}), Array{{1}, {3}}, Array{{1}, {1}}}})
          .values,
      {-2, 4}));
  // epsilon 12: sqrt(4 + 12) = 4: (0 - 2) / 4 * 3 + 1 = -0.5, (4 - 2) / 4 * 3 + 1 = 2.5
  CHECK(close(
      result_of({"BatchNormApply", statistics(4, 12), {Array{{1, 1, 2}, {0, 4}}, sums({2, 1}, {8, 32}), Array{{1}, {3}}, Array{{1}, {1}}}})
          .values,
      {-0.5, 2.5}));
}

TEST_CASE("gradients of batch normalization by hand") {
  // x = -1 1 -1 1: mean 0, variance 1, so the normalized x is x. dy = 1 2 3 4: sum 10, sum of dy x = -1 + 2 - 3 + 4 = 2.
  const Array x{{2, 1, 2}, {-1, 1, -1, 1}}, dy{{2, 1, 2}, {1, 2, 3, 4}};
  const Array s = sums({2, 1}, {0, 4});
  CHECK(close(result_of({"BatchNormGradSums", statistics(4), {x, s, dy}}).values, {10, 2}));
  // dx = scale (dy - 10/4 - x 2/4) = 2 (1 - 2.5 + 0.5, 2 - 2.5 - 0.5, 3 - 2.5 + 0.5, 4 - 2.5 - 0.5)
  CHECK(close(result_of({"BatchNormGradInput", statistics(4), {x, s, Array{{1}, {2}}, dy, sums({2, 1}, {10, 2})}}).values, {-2, -2, 2, 2}));
  const auto parameters = run({"BatchNormGradParameters", {}, {sums({2, 2}, {1, 2, 3, 4}), Array{{2}, {0, 0}}}}, DType::F32);
  CHECK(parameters[0].values == Values{3, 4});  // dscale: the second row
  CHECK(parameters[1].values == Values{1, 2});  // dbias: the first
  CHECK(parameters[0].dtype == DType::F32);
}

TEST_CASE("running statistics move towards the unbiased batch statistics") {
  // 4 elements with sum 8, squares 32: mean 2, biased variance 4, unbiased 16/3; momentum 0.75: 0.75 * 10 + 0.25 * 2 = 8, 0.75 * 1 + 0.25 *
  // 16/3 = 25/12
  const auto updated = run(
      {"BatchNormRunning", {{"count", std::int64_t{4}}, {"momentum", 0.75}}, {sums({2, 1}, {8, 32}), Array{{1}, {10}}, Array{{1}, {1}}}});
  CHECK(close(updated[0].values, {8}));
  CHECK(close(updated[1].values, {25.0 / 12}));
  // one element: no unbiased variance; stays finite
  CHECK(run({"BatchNormRunning",
             {{"count", std::int64_t{1}}, {"momentum", 0.0}},
             {sums({2, 1}, {3, 9}), Array{{1}, {10}}, Array{{1}, {1}}}})[1]
            .values == Values{0});
}

TEST_CASE("batch normalization with given statistics and its gradients") {
  // mean 1, variance 4, scale 6, bias 10: y = (x - 1) / 2 * 6 + 10 for x = 1, 3: 10, 16
  const Array x{{1, 1, 2}, {1, 3}}, mean{{1}, {1}}, variance{{1}, {4}}, scale{{1}, {6}}, dy{{1, 1, 2}, {2, 5}};
  const graph::Attributes exact{{"epsilon", 0.0}};
  CHECK(close(result_of({"BatchNormInference", exact, {x, scale, Array{{1}, {10}}, mean, variance}}).values, {10, 16}));
  CHECK(close(result_of({"BatchNormInferenceGradInput", exact, {dy, scale, variance}}).values, {6, 15}));  // dy * 6 / 2
  const auto parameters = run({"BatchNormInferenceGradParameters", exact, {x, mean, variance, dy}});
  CHECK(close(parameters[0].values, {5}));  // 2 * 0 + 5 * 1
  CHECK(close(parameters[1].values, {7}));  // 2 + 5
}

TEST_CASE("layer normalization of rows") {
  // row -1 1: mean 0, variance 1; row 2 6: mean 4, variance 4, so (x - 4) / 2 = -1 1; scale 2 3, bias 10 20: 8 23 for both
  const OneNode node{"LayerNormalization",
                     {{"axis", std::int64_t{-1}}, {"epsilon", 0.0}},
                     {Array{{2, 2}, {-1, 1, 2, 6}}, Array{{2}, {2, 3}}, Array{{2}, {10, 20}}}};
  CHECK(close(result_of(node).values, {8, 23, 8, 23}));
  CHECK(close(run(node)[1].values, {0, 4}));
  CHECK(close(run(node)[2].values, {1, 0.5}));
  CHECK(run(node)[1].shape == graph::Shape{2, 1});
  // without scale and bias, over the last two of three axes
  CHECK(close(result_of({"LayerNormalization", {{"axis", std::int64_t{1}}, {"epsilon", 0.0}}, {Array{{1, 2, 2}, {-1, 1, 1, -1}}}}).values,
              {-1, 1, 1, -1}));
}

TEST_CASE("gradients of layer normalization by hand") {
  // one row -1 1 -1 1: the normalized row is itself; g = dy scale = 1 2 3 4: mean 2.5, mean of g x = 2/4; dx = g - 2.5 - x / 2
  const graph::Attributes axis{{"axis", std::int64_t{-1}}};
  const Array x{{1, 4}, {-1, 1, -1, 1}}, zero{{1, 1}, {0}}, one{{1, 1}, {1}};
  CHECK(close(result_of({"LayerNormalizationGradInput", axis, {x, zero, one, Array{{1, 4}, {1, 1, 1, 1}}, Array::range({4}, 1)}}).values,
              {-1, -1, 1, 1}));
  // two rows of two, mean 1 and inverse deviation 2 each: normalized (x - 1) 2 = -2 0 / 2 4; dy = 1 2 / 3 4: dscale = -2 + 6, 0 + 16; dbias
  // = 4, 6
  const auto parameters = run({"LayerNormalizationGradParameters",
                               axis,
                               {Array::range({2, 2}), Array{{2, 1}, {1, 1}}, Array{{2, 1}, {2, 2}}, Array::range({2, 2}, 1)}});
  CHECK(close(parameters[0].values, {4, 16}));
  CHECK(close(parameters[1].values, {4, 6}));
}

TEST_CASE("root-mean-square normalization and its gradients") {
  // 3 4 with epsilon 0: mean square 12.5; inverse 1 / sqrt(12.5); scale 1 2
  const double inverse = 1 / std::sqrt(12.5);
  const graph::Attributes attributes{{"axis", std::int64_t{-1}}, {"epsilon", 0.0}};
  CHECK(close(result_of({"RMSNormalization", attributes, {Array{{1, 2}, {3, 4}}, Array{{2}, {1, 2}}}}).values, {3 * inverse, 8 * inverse}));
  // x = 1 1, inverse 1, dy = 1 3, scale 1 1: mean of g x = 2; dx = g - 2 x = -1 1
  CHECK(
      close(result_of({"RMSNormalizationGradInput", attributes, {Array{{1, 2}, {1, 1}}, Array{{1, 1}, {1}}, Array{{1, 2}, {1, 3}}}}).values,
            {-1, 1}));
  // dscale = dy x inverse = 1 * 3 * 2, 3 * 4 * 2
  CHECK(close(
      result_of({"RMSNormalizationGradParameters", attributes, {Array{{1, 2}, {3, 4}}, Array{{1, 1}, {2}}, Array{{1, 2}, {1, 3}}}}).values,
      {6, 24}));
}

TEST_CASE("group normalization has statistics of each sample's groups") {
  // 2 samples, 4 channels in 2 groups, no space: 0 1 | 2 3 and 4 5 | 6 7: sums 1 5 9 13; squares 1, 13, 41, 85
  CHECK(result_of({"GroupNormSums", {{"num_groups", std::int64_t{2}}}, {Array::range({2, 4})}}).values ==
        Values{1, 5, 9, 13, 1, 13, 41, 85});
  // group {-1, 1}: itself; group {2, 6}: (x - 4) / 2 = -1 1; scale 1 2 3 4, bias 0 0 0 100
  const Array x{{1, 4}, {-1, 1, 2, 6}};
  const Array s = sums({2, 1, 2}, {0, 8, 2, 40});
  CHECK(close(result_of({"GroupNormApply", grouped(2, 2), {x, s, Array::range({4}, 1), Array{{4}, {0, 0, 0, 100}}}}).values,
              {-1, 2, -3, 104}));
}

TEST_CASE("gradients of group normalization by hand") {
  // group {-1, 1} as above with scale 1 2, dy = 3 5: g = 3 10: sum 13, sum of g x = 7; group {2, 6} gets dy = 0
  const Array x{{1, 4}, {-1, 1, 2, 6}}, scale = Array::range({4}, 1), dy{{1, 4}, {3, 5, 0, 0}};
  const Array s = sums({2, 1, 2}, {0, 8, 2, 40}), g = sums({2, 1, 2}, {13, 0, 7, 0});
  CHECK(close(result_of({"GroupNormGradSums", grouped(2, 2), {x, s, scale, dy}}).values, g.values));
  // dx = (g - 13/2 - x 7/2): 3 - 6.5 + 3.5 = 0, 10 - 6.5 - 3.5 = 0: two elements normalize to -1 1 whatever they are
  CHECK(close(
      run({"GroupNormGradInput", grouped(2, 2), {x, s, scale, Array{{1, 4}, {3, 5, 1, 0}}, sums({2, 1, 2}, {13, 0, 7, 0})}}).front().values,
      {0, 0, 1.5, 0}));
  const auto parameters = run({"GroupNormGradParameters", grouped(2, 2), {x, s, dy}});
  CHECK(close(parameters[0].values, {-3, 5, 0, 0}));  // dy times the normalized x
  CHECK(close(parameters[1].values, {3, 5, 0, 0}));
}
