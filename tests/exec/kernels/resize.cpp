#include "tests/catch.hpp"
#include "tests/exec/kernels/one_node.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using Sizes = std::vector<std::int64_t>;
using Values = std::vector<double>;

namespace {

Values resized(const std::string& mode, const std::string& coordinates, const Values& x, std::int64_t size,
               graph::Attributes attributes = {}) {
  attributes.set("mode", mode);
  attributes.set("coordinate_transformation_mode", coordinates);
  attributes.set("sizes", Sizes{size});
  return result_of({"Resize", attributes, {Array{{1, 1, static_cast<std::int64_t>(x.size())}, x}}}).values;
}

Values padded(const std::string& mode, Sizes pads, double value = 0) {
  return result_of({"Pad", {{"mode", mode}, {"pads", std::move(pads)}, {"value", value}}, {Array::range({1, 3}, 1)}}).values;
}

}  // namespace

TEST_CASE("nearest neighbours") {
  // twice as large, x = o / 2 rounded down: 0 0.5 1 1.5 -> 0 0 1 1
  CHECK(resized("nearest", "asymmetric", {10, 20}, 4, {{"nearest_mode", std::string("floor")}}) == Values{10, 10, 20, 20});
  // half_pixel: (o + 0.5) / 2 - 0.5 = -0.25 0.25 0.75 1.25 -> 0 0 1 1
  CHECK(resized("nearest", "half_pixel", {10, 20}, 4) == Values{10, 10, 20, 20});
  // 3 to 2 with half_pixel: (o + 0.5) 1.5 - 0.5 = 0.25, 1.75 -> 0, 2
  CHECK(resized("nearest", "half_pixel", {10, 20, 30}, 2) == Values{10, 30});
  // align_corners, 3 to 5: x = 0 0.5 1 1.5 2; halves go down, or up
  CHECK(resized("nearest", "align_corners", {10, 20, 30}, 5) == Values{10, 10, 20, 20, 30});
  CHECK(resized("nearest", "align_corners", {10, 20, 30}, 5, {{"nearest_mode", std::string("round_prefer_ceil")}}) ==
        Values{10, 20, 20, 30, 30});
}

TEST_CASE("linear interpolation") {
  // half_pixel, 2 to 4: x = -0.25 0.25 0.75 1.25; outside counts for the border: 10, 12.5, 17.5, 20
  CHECK(resized("linear", "half_pixel", {10, 20}, 4) == Values{10, 12.5, 17.5, 20});
  // align_corners, 2 to 3: x = 0 0.5 1
  CHECK(resized("linear", "align_corners", {10, 20}, 3) == Values{10, 15, 20});
  // one result: align_corners and pytorch_half_pixel look at the first element, half_pixel at the middle
  CHECK(resized("linear", "align_corners", {10, 20}, 1) == Values{10});
  CHECK(resized("linear", "pytorch_half_pixel", {10, 20}, 1) == Values{10});
  CHECK(resized("linear", "half_pixel", {10, 20}, 1) == Values{15});
  // align_corners with a stated scale of 0.6: 4 elements become floor(2.4) = 2, the second at 3 / (2.4 - 1) = 2.1428...: 10 + 10
  // * 2.1428...
  CHECK(close(resized("linear", "align_corners", {10, 20, 30, 40}, 2, {{"scales", Values{0.6}}}), {10, 10 + 30 / 1.4}));
  // a stated scale of 2.5 with 2 to 5 elements by floor(2 * 2.5): x = o / 2.5 = 0 0.4 0.8 1.2 1.6
  CHECK(close(resized("linear", "asymmetric", {10, 20}, 5, {{"scales", Values{2.5}}}), {10, 14, 18, 20, 20}));
}

TEST_CASE("shrinking with antialiasing looks at all that is covered") {
  const std::int64_t one = 1;
  // half_pixel, 4 to 2: x = 0.5, 2.5; taps at x -1.5 -0.5 0.5 1.5, weights 1 - |distance| / 2 = 0.25 0.75 0.75 0.25, of sum 2.
  // Outside counts for the border: 0.125 10 + 0.375 10 + 0.375 20 + 0.125 30 = 16.25; mirrored 33.75
  CHECK(close(resized("linear", "half_pixel", {10, 20, 30, 40}, 2, {{"antialias", one}}), {16.25, 33.75}));
  // or not at all: (0.375 10 + 0.375 20 + 0.125 30) / 0.875
  CHECK(close(resized("linear", "half_pixel", {10, 20, 30, 40}, 2, {{"antialias", one}, {"exclude_outside", one}}),
              {15 / 0.875, 28.75 / 0.875}));
  // growing has nothing to smooth
  CHECK(resized("linear", "half_pixel", {10, 20}, 4, {{"antialias", one}}) == Values{10, 12.5, 17.5, 20});
}

TEST_CASE("cubic interpolation of a straight line is the line inside") {
  // 8 to 16, half_pixel: x = (o + 0.5) / 2 - 0.5; from o = 4 on, no tap is outside: y = x. Keys' kernel reproduces polynomials for a = -0.5
  // only.
  const Values y = resized("cubic", "half_pixel", {0, 1, 2, 3, 4, 5, 6, 7}, 16, {{"cubic_coeff_a", -0.5}});
  for (std::size_t o = 4; o < 12; ++o) CHECK(y[o] == Approx((static_cast<double>(o) + 0.5) / 2 - 0.5));
  // halfway between two with a = -0.75: weights -3/32 19/32 19/32 -3/32; align_corners 4 to 7, o = 3: x = 1.5, values 0 0 32 0 -> 19
  CHECK(resized("cubic", "align_corners", {0, 0, 32, 0}, 7)[3] == Approx(19));
}

TEST_CASE("two axes are resized one after the other") {
  // rows then columns by align_corners 2x2 -> 3x3 of 0 2 / 4 6: the bilinear grid 0 1 2 / 2 3 4 / 4 5 6
  const Array y = result_of(
      {"Resize",
       {{"mode", std::string("linear")}, {"coordinate_transformation_mode", std::string("align_corners")}, {"sizes", Sizes{3, 3}}},
       {Array::range({1, 1, 2, 2}, 0, 2)}});
  CHECK(y.values == Values{0, 1, 2, 2, 3, 4, 4, 5, 6});
}

TEST_CASE("the gradient of interpolation returns each weight") {
  // linear, half_pixel 2 to 4: weights of x0: 1, 0.75, 0.25, 0; of x1: 0, 0.25, 0.75, 1; dy = 1 2 3 4: 1 + 1.5 + 0.75, 0.5 + 2.25 + 4
  CHECK(result_of({"ResizeGrad", {{"mode", std::string("linear")}, {"sizes", Sizes{4}}, {"shape", Sizes{2}}}, {Array::range({1, 1, 4}, 1)}})
            .values == Values{3.25, 6.75});
}

TEST_CASE("padding by mode") {  // of 1 2 3
  CHECK(padded("constant", {2, 1}, 9) == Values{9, 9, 1, 2, 3, 9});
  CHECK(padded("reflect", {2, 1}) == Values{3, 2, 1, 2, 3, 2});
  CHECK(padded("edge", {2, 1}) == Values{1, 1, 1, 2, 3, 3});
  CHECK(padded("wrap", {2, 1}) == Values{2, 3, 1, 2, 3, 1});
  CHECK(padded("constant", {-1, 2}) == Values{2, 3, 0, 0});
}

TEST_CASE("padding of two axes fills the corners") {
  // 1 2 with a row above and a column to the left
  CHECK(result_of({"Pad", {{"pads", Sizes{1, 1, 0, 0}}, {"value", 7.0}}, {Array{{1, 1, 1, 2}, {1, 2}}}}).values ==
        Values{7, 7, 7, 7, 1, 2});
}

TEST_CASE("the gradient of padding adds what was repeated") {
  // reflect 2/1 of three: results come from 2 1 0 1 2 1; dy = 1..6: d0 = 3, d1 = 2 + 4 + 6, d2 = 1 + 5
  CHECK(result_of({"PadGrad", {{"mode", std::string("reflect")}, {"pads", Sizes{2, 1}}, {"shape", Sizes{3}}}, {Array::range({1, 6}, 1)}})
            .values == Values{3, 12, 6});
  // cut off: nothing returns to what was cut
  CHECK(result_of({"PadGrad", {{"pads", Sizes{-1, 0}}, {"shape", Sizes{3}}}, {Array::range({1, 2}, 1)}}).values == Values{0, 1, 2});
}

TEST_CASE("a block of a resized or padded tensor is that block of the whole result") {
  const Array x = Array::range({1, 1, 5}, 1);
  const graph::Attributes linear{{"mode", std::string("linear")}, {"sizes", Sizes{9}}},
      reflect{{"mode", std::string("reflect")}, {"pads", Sizes{2, 1}}};
  const auto middle = [](const Values& v, std::size_t first, std::size_t last) {
    return Values(v.begin() + static_cast<std::ptrdiff_t>(first), v.begin() + static_cast<std::ptrdiff_t>(last));
  };
  // results 3, 4 and 5 of 9 lie at (o + 0.5) 5/9 - 0.5 = 1.44, 2, 2.56: operand elements 1, 2 and 3 suffice
  const Block in{{0, 0, 1}, {1, 1, 5}}, out{{0, 0, 3}, {1, 1, 9}};
  const auto part = run({"Resize", linear, {Array{{1, 1, 3}, {2, 3, 4}}}, {}, {in}, {out}, {{1, 1, 3}}});
  CHECK(close(part[0].values, middle(result_of({"Resize", linear, {x}}).values, 3, 6)));
  // the same rows back: the whole gradient when only those results have one
  const auto back = run({"ResizeGrad", linear, {Array{{1, 1, 3}, {1, 2, 3}}}, {}, {out}, {in}, {{1, 1, 3}}});
  graph::Attributes whole = linear;
  whole.set("shape", Sizes{5});
  CHECK(close(back[0].values, middle(result_of({"ResizeGrad", whole, {Array{{1, 1, 9}, {0, 0, 0, 1, 2, 3, 0, 0, 0}}}}).values, 1, 4)));
  // results 5, 6, 7 of 8 reflected: operands 3, 4, 3
  const Block tail{{0, 0, 3}, {1, 1, 5}}, padded_tail{{0, 0, 5}, {1, 1, 8}};
  CHECK(run({"Pad", reflect, {Array{{1, 1, 2}, {4, 5}}}, {}, {tail}, {padded_tail}, {{1, 1, 3}}})[0].values == Values{4, 5, 4});
  // operand element 2 is not in the block
  CHECK_THROWS(run({"Pad", reflect, {Array{{1, 1, 2}, {4, 5}}}, {}, {tail}, {{{0, 0, 4}, {1, 1, 8}}}, {{1, 1, 4}}}));
}
