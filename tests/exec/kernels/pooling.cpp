#include <cmath>
#include <limits>

#include "tests/catch.hpp"
#include "tests/exec/kernels/one_node.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using Sizes = std::vector<std::int64_t>;
using Values = std::vector<double>;

namespace {

graph::Attributes pool(Sizes kernel, Sizes strides, Sizes pads) {
  return {{"kernel_shape", std::move(kernel)}, {"strides", std::move(strides)}, {"pads", std::move(pads)}};
}

graph::Attributes with(graph::Attributes attributes, const char* key, graph::AttributeValue value) {
  attributes.set(key, std::move(value));
  return attributes;
}

}  // namespace

TEST_CASE("maximum of windows; padding never wins") {
  // -1 -5 -2 -3 with one element of padding on the low side, windows of 2, stride 2: {pad, -1}, {-5, -2}
  CHECK(result_of({"MaxPool", pool({2}, {2}, {1, 0}), {Array{{1, 1, 4}, {-1, -5, -2, -3}}}}).values == Values{-1, -2});
  // 3 x 3 image 0..8, windows 2 x 2, stride 1: 4 5 / 7 8
  CHECK(result_of({"MaxPool", pool({2, 2}, {1, 1}, {0, 0, 0, 0}), {Array::range({1, 1, 3, 3})}}).values == Values{4, 5, 7, 8});
}

TEST_CASE("ceil_mode adds a window that starts inside the tensor only") {
  // 5 elements, windows of 2, stride 2: floor gives 2 windows, ceil 3 (the last sees element 4 only)
  CHECK(result_of({"MaxPool", with(pool({2}, {2}, {0, 0}), "ceil_mode", std::int64_t{1}), {Array::range({1, 1, 5})}}).values ==
        Values{1, 3, 4});
  // 4 elements, windows of 1, stride 3, high padding 0: ceil((4-1)/3)+1 = 2, starting at 0 and 3
  CHECK(result_of({"MaxPool", with(pool({1}, {3}, {0, 0}), "ceil_mode", std::int64_t{1}), {Array::range({1, 1, 4})}}).values ==
        Values{0, 3});
  // 3 elements, windows of 2, stride 3, padding 0/1: ceil((4-2)/3)+1 = 2, but the second would start at 3, in the high padding
  CHECK(result_of({"MaxPool", with(pool({2}, {3}, {0, 1}), "ceil_mode", std::int64_t{1}), {Array::range({1, 1, 3})}}).values == Values{1});
}

TEST_CASE("the gradient of a maximum goes to the first of equals") {
  // windows {2, 2}, {2, 1}, {1, 3}: winners 0, 1, 3 with dy = 1 10 100
  CHECK(result_of({"MaxPoolGrad", pool({2}, {1}, {0, 0}), {Array{{1, 1, 4}, {2, 2, 1, 3}}, Array{{1, 1, 3}, {1, 10, 100}}}}).values ==
        Values{1, 10, 0, 100});
  // overlapping windows with one winner add up: element 1 wins both of {0, 9}, {9, 3}
  CHECK(result_of({"MaxPoolGrad", pool({2}, {1}, {0, 0}), {Array{{1, 1, 3}, {0, 9, 3}}, Array{{1, 1, 2}, {1, 10}}}}).values ==
        Values{0, 11, 0});
  // dilation 2: windows {5, 1}, {4, 7}: winners 0 and 3
  CHECK(
      result_of(
          {"MaxPoolGrad", with(pool({2}, {1}, {0, 0}), "dilations", Sizes{2}), {Array{{1, 1, 4}, {5, 4, 1, 7}}, Array{{1, 1, 2}, {1, 10}}}})
          .values == Values{1, 0, 0, 10});
}

TEST_CASE("a window of NaN and infinities") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(run({"MaxPool", pool({2}, {2}, {0, 0}), {Array{{1, 1, 2}, {-inf, -inf}}}}).front().values == Values{-inf});
  CHECK(std::isnan(run({"MaxPool", pool({2}, {2}, {0, 0}), {Array{{1, 1, 2}, {std::nan(""), 1}}}}).front().values[0]));
}

TEST_CASE("mean of windows, with and without counting padding") {
  // 2 4 6 with one element of padding at each side, windows of 3: sums 6, 12, 10; in the tensor 2, 3, 2 of 3
  const graph::Attributes windows = pool({3}, {1}, {1, 1});
  CHECK(result_of({"AveragePool", windows, {Array{{1, 1, 3}, {2, 4, 6}}}}).values == Values{3, 4, 5});
  CHECK(close(result_of({"AveragePool", with(windows, "count_include_pad", std::int64_t{1}), {Array{{1, 1, 3}, {2, 4, 6}}}}).values,
              {2, 4, 10.0 / 3}));
  // ceil_mode: 5 elements 1..5, windows of 3, stride 3: {1,2,3}, {4,5} and one position outside that never counts
  const graph::Attributes ceil = with(with(pool({3}, {3}, {0, 0}), "ceil_mode", std::int64_t{1}), "count_include_pad", std::int64_t{1});
  CHECK(close(result_of({"AveragePool", ceil, {Array::range({1, 1, 5}, 1)}}).values, {2, 4.5}));
}

TEST_CASE("the gradient of a mean is spread over what counted") {
  // windows {pad, 0, 1}, {0, 1, 2}, {1, 2, pad} counting 2, 3, 2; dy = 2 3 4: dx0 = 1 + 1, dx1 = 1 + 1 + 2, dx2 = 1 + 2
  CHECK(close(result_of({"AveragePoolGrad", with(pool({3}, {1}, {1, 1}), "shape", Sizes{3}), {Array{{1, 1, 3}, {2, 3, 4}}}}).values,
              {2, 4, 3}));
  // 2 x 2 windows over 2 x 3, stride 1: every window gives a quarter; dy = 4 8: columns 1, 3, 2
  CHECK(close(
      result_of({"AveragePoolGrad", with(pool({2, 2}, {1, 1}, {0, 0, 0, 0}), "shape", Sizes{2, 3}), {Array{{1, 1, 1, 2}, {4, 8}}}}).values,
      {1, 3, 2, 1, 3, 2}));
}

TEST_CASE("positions of maxima count in the whole tensor, rows or columns first") {
  // planes 0 1 2 / 3 4 5 and 6 7 8 / 9 10 11; windows of 2x2 end at 4, 5, 10, 11
  const Array x = Array::range({1, 2, 2, 3});
  graph::Attributes window{{"kernel_shape", std::vector<std::int64_t>{2, 2}}};
  CHECK(run({"MaxPoolPositions", window, {x}})[0].values == std::vector<double>{4, 5, 10, 11});
  window.set("column_major", std::int64_t{1});
  // element (1, 1) of a plane is number 1 * 2 + 1 = 3 by columns, (1, 2) number 5
  CHECK(run({"MaxPoolPositions", window, {x}})[0].values == std::vector<double>{3, 5, 9, 11});
}
