#include <cmath>

#include "tests/catch.hpp"
#include "tests/exec/kernels/one_node.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using Sizes = std::vector<std::int64_t>;

TEST_CASE("convolution of a row with padding on one side, stride 2 and dilation 2") {
  // x = 1 2 3 4 5, one zero before it: 0 1 2 3 4 5. Kernel 10 1 with taps 2 apart: windows at 0 and 2.
  // y0 = 10 * 0 + 1 * 2 = 2; y1 = 10 * 2 + 1 * 4 = 24
  const Array y = result_of({"Conv",
                             {{"strides", Sizes{2}}, {"dilations", Sizes{2}}, {"pads", Sizes{1, 0}}},
                             {Array::range({1, 1, 5}, 1), Array{{1, 1, 2}, {10, 1}}}});
  CHECK(y.shape == graph::Shape{1, 1, 2});
  CHECK(y.values == std::vector<double>{2, 24});
}

TEST_CASE("convolution of an image with asymmetric padding and a bias") {
  // x = 1 2 / 3 4 padded by a row above and a column to the right: 0 0 0 / 1 2 0 / 3 4 0; kernel 1 2 / 3 4, bias 100.
  // y00 = 1*0 + 2*0 + 3*1 + 4*2 = 11; y01 = 3*2 + 4*0 = 6; y10 = 1*1 + 2*2 + 3*3 + 4*4 = 30; y11 = 1*2 + 2*0 + 3*4 + 4*0 = 14
  const Array y =
      result_of({"Conv", {{"pads", Sizes{1, 0, 0, 1}}}, {Array::range({1, 1, 2, 2}, 1), Array::range({1, 1, 2, 2}, 1), Array{{1}, {100}}}});
  CHECK(y.values == std::vector<double>{111, 106, 130, 114});
}

TEST_CASE("grouped convolution contracts the channels of its own group only") {
  // 4 channels in 2 groups, 1 x 1: o0 = 1*x0 + 2*x1, o1 = 3*x2 + 4*x3 with x = 1, 2, 3, 4
  const Array y = result_of({"Conv", {{"group", std::int64_t{2}}}, {Array::range({1, 4, 1, 1}, 1), Array::range({2, 2, 1, 1}, 1)}});
  CHECK(y.values == std::vector<double>{5, 25});
}

TEST_CASE("convolution of a volume") {
  // Ones of 2 x 2 x 2 over 0..26 in a 3^3 cube: the sum of a block at offset b is 8 b + (0+1+3+4+9+10+12+13) = 8 b + 52; b = 0, 1, 3, 4, 9,
  // ...
  const Array y = result_of({"Conv", {}, {Array::range({1, 1, 3, 3, 3}), Array::range({1, 1, 2, 2, 2}, 1, 0)}});
  CHECK(y.values == std::vector<double>{52, 60, 76, 84, 124, 132, 148, 156});
}

TEST_CASE("a padding wider than the kernel gives zeros") {
  // x = 5 with two zeros on each side, kernel 1: the windows see 0 0 5 0 0
  CHECK(result_of({"Conv", {{"pads", Sizes{2, 2}}}, {Array{{1, 1, 1}, {5}}, Array{{1, 1, 1}, {1}}}}).values ==
        std::vector<double>{0, 0, 5, 0, 0});
}

TEST_CASE("transposed convolution spreads each element over its window") {
  // x = 1 2, kernel 1 10 100, stride 2, low padding 1, output padding 1: full result 1 10 100+2 20 200, size (2-1)*2+3+1-1-0 = 5;
  // without the first: 10 102 20 200, then the row of output padding: 0; the bias adds 1000.
  const Array y = result_of({"ConvTranspose",
                             {{"strides", Sizes{2}}, {"pads", Sizes{1, 0}}, {"output_padding", Sizes{1}}},
                             {Array{{1, 1, 2}, {1, 2}}, Array{{1, 1, 3}, {1, 10, 100}}, Array{{1}, {1000}}}});
  CHECK(y.values == std::vector<double>{1010, 1102, 1020, 1200, 1000});
}

TEST_CASE("grouped transposed convolution") {
  // W [2, 2, 1] with 2 groups: channel 0 goes to results 0, 1 (weights 1, 2), channel 1 to results 2, 3 (weights 3, 4); x = 10, 100
  const Array y = result_of({"ConvTranspose", {{"group", std::int64_t{2}}}, {Array{{1, 2, 1}, {10, 100}}, Array::range({2, 2, 1}, 1)}});
  CHECK(y.values == std::vector<double>{10, 20, 300, 400});
}

TEST_CASE("gradients of a convolution by hand") {
  // y_i = w0 x_{2i} + w1 x_{2i+1} for x of 5 elements: x4 is outside every window.
  const graph::Attributes stride{{"strides", Sizes{2}}};
  graph::Attributes of_input = stride, of_weight = stride;
  of_input.set("shape", Sizes{5});
  of_weight.set("kernel_shape", Sizes{2});
  // dy = 1 10, w = 2 3: dx = 2 3 20 30 0
  CHECK(result_of({"ConvGradInput", of_input, {Array{{1, 1, 2}, {1, 10}}, Array{{1, 1, 2}, {2, 3}}}}).values ==
        std::vector<double>{2, 3, 20, 30, 0});
  // x = 1 2 3 4 5: dw0 = 1*1 + 10*3 = 31, dw1 = 1*2 + 10*4 = 42
  CHECK(result_of({"ConvGradWeight", of_weight, {Array::range({1, 1, 5}, 1), Array{{1, 1, 2}, {1, 10}}}}).values ==
        std::vector<double>{31, 42});
  // two samples, two channels: db0 = (1 + 2) + (5 + 6) = 14, db1 = (3 + 4) + (7 + 8) = 22
  CHECK(result_of({"ConvGradBias", {}, {Array::range({2, 2, 2}, 1)}}).values == std::vector<double>{14, 22});
}

TEST_CASE("a convolution and its gradients are adjoint") {
  // <conv(x, w), dy> = <x, grad_input(dy, w)> = <w, grad_weight(x, dy)>, for strides, dilation, groups and padding at once
  const graph::Attributes attributes{
      {"strides", Sizes{2, 1}}, {"dilations", Sizes{1, 2}}, {"pads", Sizes{1, 0, 2, 3}}, {"group", std::int64_t{2}}};
  Array x = Array::range({2, 4, 7, 11}, -3, 0.37), w = Array::range({6, 2, 3, 2}, 1, -0.21);
  for (double& v : x.values) v = std::sin(v);
  const Array y = result_of({"Conv", attributes, {x, w}});
  Array dy = Array::range(y.shape, 0.3, 0.77);
  for (double& v : dy.values) v = std::cos(v);
  const auto inner = [](const Array& a, const Array& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.values.size(); ++i) sum += a.values[i] * b.values[i];
    return sum;
  };
  graph::Attributes of_input = attributes, of_weight = attributes;
  of_input.set("shape", Sizes{7, 11});
  of_weight.set("kernel_shape", Sizes{3, 2});
  const double expected = inner(y, dy);
  CHECK(inner(x, result_of({"ConvGradInput", of_input, {dy, w}})) == Approx(expected).epsilon(1e-12));
  CHECK(inner(w, result_of({"ConvGradWeight", of_weight, {x, dy}})) == Approx(expected).epsilon(1e-12));
}
