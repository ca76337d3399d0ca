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

TEST_CASE("a block's weights sum to 1, and its log-sum-exp says what it weighs") {
  const auto block = run({"BlockSoftmax", {}, {Array{{2, 2}, {std::log(3.0), 0, kNever, 1000}}}});
  CHECK(close(block[0].values, {0.75, 0.25, 0, 1}));
  CHECK(block[1].shape == graph::Shape{2, 1});
  CHECK(close(block[1].values, {std::log(4.0), 1000}));
  // A row that sees nothing of this block weighs nothing.
  const auto masked = run({"BlockSoftmax", {}, {Array{{1, 2}, {kNever, kNever}}}});
  CHECK(masked[0].values == Values{0, 0});
  CHECK(masked[1].values == Values{kNever});
}

TEST_CASE("parts of a result are merged by what their keys weigh") {
  // Keys that weigh 1 give (2, 4), keys that weigh 3 give (6, 0): (1 (2, 4) + 3 (6, 0)) / 4 = (5, 1). Of the second row only one part sees
  // a key, of the third none.
  const Array one{{3, 2}, {2, 4, 7, 8, 0, 0}}, three{{3, 2}, {6, 0, 0, 0, 0, 0}};
  const Array weight_of_one{{3, 1}, {0, -2, kNever}}, weight_of_three{{3, 1}, {std::log(3.0), kNever, kNever}};
  const auto merged = run({"MergeBlocks", {}, {one, weight_of_one, three, weight_of_three}});
  CHECK(close(merged[0].values, {5, 1, 7, 8, 0, 0}));
  CHECK(std::abs(merged[1].values[0] - std::log(4.0)) < 1e-15);
  CHECK(merged[1].values[1] == -2);
  CHECK(merged[1].values[2] == kNever);
}

TEST_CASE("weights of a block follow from the log-sum-exp of all blocks") {
  const auto weights = result_of({"BlockWeights", {}, {Array{{2, 2}, {0, std::log(3.0), 1, kNever}}, Array{{2, 1}, {std::log(8.0), 1}}}});
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
