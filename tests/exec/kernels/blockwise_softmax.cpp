// Softmax and its gradient block by block are those of the whole.
#include <cmath>
#include <limits>

#include "tests/catch.hpp"
#include "tests/exec/kernels/one_node.hpp"

namespace rehearsal::exec {
namespace {

using Values = std::vector<double>;
const double kNever = -std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("a block's weights sum to 1, and the sum of exponentials says what it weighs") {
  const auto block = run({"BlockSoftmax", {}, {Array{{2, 2}, {std::log(3.0), 0, kNever, 1000}}}});
  CHECK(close(block[0].values, {0.75, 0.25, 0, 1}));
  CHECK(block[1].shape == graph::Shape{2, 2});
  CHECK(block[1].values[0] == std::log(3.0));
  CHECK(std::abs(block[1].values[1] - 4.0 / 3) < 1e-15);
  CHECK(Values(block[1].values.begin() + 2, block[1].values.end()) == Values{1000, 1});
  // A row that sees nothing of this block weighs nothing.
  const auto masked = run({"BlockSoftmax", {}, {Array{{1, 2}, {kNever, kNever}}}});
  CHECK(masked[0].values == Values{0, 0});
  CHECK(masked[1].values == Values{kNever, 0});
}

TEST_CASE("parts of a result are merged by what their keys weigh") {
  // Keys that weigh e^5 give 2, keys that weigh 3 e^5 give 6: (2 + 3 6) / 4 = 5. Of the second row only one part sees a key, of the third
  // none. In the fourth, two keys of e^0 weigh as much as one of e^(log 2): (8 + 4) / 2.
  const Array one{{4, 1}, {2, 7, 0, 8}}, three{{4, 1}, {6, 0, 0, 4}};
  const Array of_one{{4, 2}, {5, 1, -2, 1, kNever, 0, 0, 2}}, of_three{{4, 2}, {5, 3, kNever, 0, kNever, 0, std::log(2.0), 1}};
  const auto merged = run({"MergeBlocks", {}, {one, of_one, three, of_three}});
  CHECK(close(merged[0].values, {5, 7, 0, 6}));
  CHECK(Values(merged[1].values.begin(), merged[1].values.begin() + 6) == Values{5, 4, -2, 1, kNever, 0});
  CHECK(merged[1].values[6] == std::log(2.0));
  CHECK(std::abs(merged[1].values[7] - 2) < 1e-15);
}

TEST_CASE("weights of a block follow from maximum and sum of all blocks") {
  const auto weights =
      result_of({"BlockWeights", {}, {Array{{2, 2}, {0, std::log(3.0), 1, kNever}}, Array{{2, 2}, {std::log(4.0), 2, 1, 1}}}});
  CHECK(close(weights.values, {1.0 / 8, 3.0 / 8, 1, 0}));
}

TEST_CASE("the gradient of a block of softmax is that part of the whole gradient") {
  const Array weights{{1, 4}, {0.1, 0.2, 0.3, 0.4}}, gradient{{1, 4}, {1, -2, 3, 5}};
  const auto whole = run({"SoftmaxGrad", {}, {gradient, weights}})[0].values;
  const auto dot = run({"RowDot", {}, {gradient, weights}})[0];
  CHECK(std::abs(dot.values[0] - 2.6) < 1e-15);  // 0.1 - 0.4 + 0.9 + 2
  const auto block = run({"BlockSoftmaxGrad", {}, {Array{{1, 2}, {3, 5}}, Array{{1, 2}, {0.3, 0.4}}, dot}})[0].values;
  CHECK(close(block, {whole[2], whole[3]}));
  CHECK(close(block, {0.3 * 0.4, 0.4 * 2.4}));
}

}  // namespace rehearsal::exec
