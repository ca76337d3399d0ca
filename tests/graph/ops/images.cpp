// Shapes, labels, work and refusals of the rows that work on images.

#include "tests/catch.hpp"
#include "tests/graph/ops/rows.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;
using Sizes = std::vector<std::int64_t>;

namespace {

const Attributes kSame3{{"pads", Sizes{1, 1, 1, 1}}};
const Attributes kHalve{{"pads", Sizes{3, 3, 3, 3}}, {"strides", Sizes{2, 2}}};

Attributes pool(Sizes kernel, Sizes strides, Sizes pads) {
  return {{"kernel_shape", std::move(kernel)}, {"strides", std::move(strides)}, {"pads", std::move(pads)}};
}

Attributes with(Attributes attributes, const char* key, AttributeValue value) {
  attributes.set(key, std::move(value));
  return attributes;
}

}  // namespace

TEST_CASE("sizes of convolutions") {
  CHECK(RowOn("Conv", {{{2, 3, 224, 224}}, {{64, 3, 7, 7}}}, kHalve).shape() == Shape{2, 64, 112, 112});  // floor((224 + 6 - 7) / 2) + 1
  CHECK(RowOn("Conv", {{{2, 3, 45, 37}}, {{8, 3, 7, 7}}}, kHalve).shape() == Shape{2, 8, 23, 19});
  CHECK(RowOn("Conv", {{{1, 4, 9}}, {{6, 2, 3}}}, {{"group", std::int64_t{2}}, {"dilations", Sizes{3}}}).shape() ==
        Shape{1, 6, 3});  // 9 - (2 * 3 + 1) + 1
  CHECK(RowOn("ConvTranspose", {{{1, 8, 5, 5}}, {{8, 3, 2, 2}}}, {{"strides", Sizes{2, 2}}}).shape() ==
        Shape{1, 3, 10, 10});  // (5 - 1) * 2 + 2
  // (5 - 1) * 2 + 3 + 1 - 2 = 10
  CHECK(RowOn("ConvTranspose", {{{1, 8, 5}}, {{8, 3, 3}}}, {{"strides", Sizes{2}}, {"pads", Sizes{1, 1}}, {"output_padding", Sizes{1}}})
            .shape() == Shape{1, 3, 10});
}

TEST_CASE("work of a convolution and of its gradients is the same product") {
  const RowOn conv("Conv", {{{2, 4, 8, 8}}, {{6, 4, 3, 3}}}, kSame3);
  CHECK(conv.work().flops.value() == 2 * 2 * 8 * 8 * 6 * 4 * 9);  // twice batch * pixels * out * in * taps
  CHECK(conv.work().bytes.value() == 4 * (2 * 4 * 64 + 6 * 4 * 9 + 2 * 6 * 64));
  CHECK(RowOn("ConvGradInput", {{{2, 6, 8, 8}}, {{6, 4, 3, 3}}}, with(kSame3, "shape", Sizes{8, 8})).work().flops == conv.work().flops);
  CHECK(RowOn("ConvGradWeight", {{{2, 4, 8, 8}}, {{2, 6, 8, 8}}}, with(kSame3, "kernel_shape", Sizes{3, 3})).work().flops ==
        conv.work().flops);
  // 2 groups: each result channel sees half of the channels; a bias adds once per element
  const RowOn grouped("Conv", {{{2, 4, 8, 8}}, {{6, 2, 3, 3}}, {{6}}}, with(kSame3, "group", std::int64_t{2}));
  CHECK(grouped.work().flops.value() == 2 * 2 * 64 * 6 * 2 * 9 + 2 * 6 * 64);
}

TEST_CASE("a convolution has channels on both sides") {
  // Groups and positions are counted by dividing by them.
  CHECK(says(refusal("Conv", {{{1, 0, 4}}, {{2, 0, 3}}}), {"operand 1", "no channels"}));
  CHECK(says(refusal("Conv", {{{1, 2, 4}}, {{0, 2, 3}}}), {"operand 1", "no channels"}));
  CHECK(says(refusal("ConvTranspose", {{{1, 2, 4}}, {{2, 0, 3}}}), {"operand 1", "no channels"}));
  CHECK(says(refusal("ConvGradInput", {{{1, 2, 2}}, {{2, 0, 3}}}, {{"shape", Sizes{4}}}), {"operand 1", "no channels"}));
  CHECK(says(refusal("ConvGradWeight", {{{1, 0, 4}}, {{1, 2, 2}}}, {{"kernel_shape", Sizes{3}}}), {"operand 0", "no channels"}));
  CHECK(says(refusal("ConvGradWeight", {{{1, 2, 4}}, {{1, 0, 2}}}, {{"kernel_shape", Sizes{3}}}), {"operand 1", "no channels"}));
  CHECK(RowOn("Conv", {{{0, 2, 4}}, {{1, 2, 3}}}).work().flops.value() == 0);  // no images are none to work on
}

TEST_CASE("the gradient of a weight is of images and gradients that belong together") {
  const Attributes taps{{"kernel_shape", Sizes{3}}, {"group", std::int64_t{2}}};
  CHECK(refusal("ConvGradWeight", {{{5, 4, 6}}, {{5, 6, 4}}}, taps).empty());
  CHECK(says(refusal("ConvGradWeight", {{{5, 4, 6}}, {{4, 6, 4}}}, taps), {"5 and 4 images"}));
  CHECK(says(refusal("ConvGradWeight", {{{5, 4, 6}}, {{5, 7, 4}}}, taps), {"'group' is 2", "7 output channels"}));
  CHECK(says(refusal("ConvGradWeight", {{{5, 4, 6}}, {{5, 6, 5}}}, taps), {"operand 1", "[5]", "[4]"}));
}

TEST_CASE("a transposed convolution works as its product does, and adds its bias") {
  // [2, 4, 8, 8] with weights [4, 6, 3, 3]: every element of the operand meets 6·9 weights; the result is [2, 6, 10, 10].
  const RowOn plain("ConvTranspose", {{{2, 4, 8, 8}}, {{4, 6, 3, 3}}}), biased("ConvTranspose", {{{2, 4, 8, 8}}, {{4, 6, 3, 3}}, {{6}}});
  CHECK(plain.shape() == Shape{2, 6, 10, 10});
  CHECK(plain.work().flops.value() == 2.0 * 2 * 4 * 64 * 6 * 9);
  CHECK(biased.work().flops.value() == plain.work().flops.value() + 2 * 6 * 100);
}

TEST_CASE("labels of a convolution: batch, group, in, out, then space") {
  const SplitRule plain = RowOn("Conv", {{{2, 4, 8, 8}}, {{6, 4, 3, 3}}}, kSame3).labels();
  CHECK(text_of(plain.inputs[0]) == "0 2 4 5");
  CHECK(text_of(plain.inputs[1]) == "3 2 - -");
  CHECK(text_of(plain.outputs[0]) == "0 3 4 5");
  CHECK(text_of(plain.kinds) == "PPSPWW");
  const SplitRule grouped = RowOn("Conv", {{{2, 4, 8, 8}}, {{6, 2, 3, 3}}, {{6}}}, with(kSame3, "group", std::int64_t{2})).labels();
  CHECK(text_of(grouped.inputs[0]) == "0 1.2 4 5");
  CHECK(text_of(grouped.inputs[1]) == "1.3 2 - -");
  CHECK(text_of(grouped.inputs[2]) == "1.3");
  CHECK(text_of(grouped.kinds) == "PPSPWW");  // where summed channels are split, one rank adds the bias
  const SplitRule depthwise = RowOn("Conv", {{{2, 4, 8, 8}}, {{4, 1, 3, 3}}}, with(kSame3, "group", std::int64_t{4})).labels();
  CHECK(text_of(depthwise.inputs[0]) == "0 1 4 5");
  CHECK(text_of(depthwise.inputs[1]) == "1 - - -");
}

TEST_CASE("labels of a convolution's gradients keep the forward ones") {
  const SplitRule input = RowOn("ConvGradInput", {{{2, 6, 8, 8}}, {{6, 4, 3, 3}}}, with(kSame3, "shape", Sizes{8, 8})).labels();
  CHECK(text_of(input.inputs[0]) == "0 3 4 5");
  CHECK(text_of(input.inputs[1]) == "3 2 - -");
  CHECK(text_of(input.outputs[0]) == "0 2 4 5");
  CHECK(text_of(input.kinds) == "PPPSWW");
  const SplitRule weight = RowOn("ConvGradWeight", {{{2, 4, 8, 8}}, {{2, 6, 8, 8}}}, with(kSame3, "kernel_shape", Sizes{3, 3})).labels();
  CHECK(text_of(weight.inputs[0]) == "0 2 4 5");
  CHECK(text_of(weight.inputs[1]) == "0 3 4 5");
  CHECK(text_of(weight.outputs[0]) == "3 2 - -");
  CHECK(text_of(weight.kinds) == "SPPPWW");
}

TEST_CASE("what convolutions refuse") {
  CHECK(says(refusal("Conv", {{{1, 3, 8, 8}}, {{4, 2, 3, 3}}}), {"operand 0 has 3 channels, it must have 2"}));
  CHECK(says(refusal("Conv", {{{1, 3, 8, 8}}, {{4, 3, 3}}}), {"same rank"}));
  CHECK(says(refusal("Conv", {{{1, 3, 8, 8}}, {{4, 3, 9, 9}}}), {"spans 9"}));
  CHECK(says(refusal("Conv", {{{1, 3, 8, 8}}, {{4, 3, 3, 3}}, {{5}}}), {"bias", "[4]"}));
  CHECK(says(refusal("Conv", {{{1, 3, 8, 8}}, {{4, 3, 3, 3}}}, {{"strides", Sizes{2}}}), {"'strides' has 1 entries"}));
  CHECK(says(refusal("Conv", {{{1, 3, 8, 8}}, {{4, 3, 3, 3}}}, {{"strides", Sizes{0, 1}}}), {"'strides'", "at least 1"}));
  CHECK(says(refusal("Conv", {{{1, 3, 8, 8}}, {{4, 1, 3, 3}}}, {{"group", std::int64_t{3}}}), {"'group' is 3"}));
  CHECK(says(refusal("ConvTranspose", {{{1, 3, 8}}, {{3, 4, 3}}}, {{"output_padding", Sizes{1}}}), {"less than the stride"}));
  CHECK(says(refusal("ConvTranspose", {{{1, 3, 2}}, {{3, 4, 2}}}, {{"pads", Sizes{2, 2}}}), {"leave nothing"}));
}

TEST_CASE("sizes and labels of pools") {
  CHECK(RowOn("MaxPool", {{{2, 64, 112, 112}}}, pool({3, 3}, {2, 2}, {1, 1, 1, 1})).shape() == Shape{2, 64, 56, 56});
  CHECK(RowOn("MaxPool", {{{1, 1, 6, 6}}}, with(pool({3, 3}, {2, 2}, {0, 0, 0, 0}), "ceil_mode", std::int64_t{1})).shape() ==
        Shape{1, 1, 3, 3});  // ceil(3 / 2) + 1
  const RowOn gradient("MaxPoolGrad", {{{2, 3, 6, 6}}, {{2, 3, 3, 3}}}, pool({2, 2}, {2, 2}, {0, 0, 0, 0}));
  CHECK(gradient.shape() == Shape{2, 3, 6, 6});
  CHECK(gradient.work().flops.value() == 2 * 3 * 9 * 4);
  CHECK(text_of(gradient.labels().inputs[1]) == "0 1 2 3");
  CHECK(text_of(gradient.labels().kinds) == "PPWW");
  CHECK(says(refusal("MaxPool", {{{1, 1, 8}}}, pool({2}, {1}, {2, 0})), {"less than the window's span"}));
  CHECK(says(refusal("MaxPool", {{{1, 1, 8}}}, pool({2, 2}, {1, 1}, {0, 0, 0, 0})), {"'kernel_shape' has 2 entries"}));
  // What is wrong is the window, not the pads, of which there would be as many.
  CHECK(says(refusal("MaxPool", {{{1, 1, 8, 8}}}, pool({}, {1, 1}, {0, 0, 0, 0})), {"'kernel_shape' is missing", "2 spatial axes"}));
  CHECK(says(refusal("AveragePool", {{{1, 8}}}, pool({2}, {1}, {0, 0})), {"rank 3 to 5"}));
}

TEST_CASE("sizes and labels of resized and padded tensors") {
  const RowOn resize("Resize", {{{2, 3, 4, 5}}}, {{"mode", std::string("linear")}, {"sizes", Sizes{8, 5}}});
  CHECK(resize.shape() == Shape{2, 3, 8, 5});
  CHECK(text_of(resize.labels().kinds) == "PPWP");  // the width stays
  const RowOn pad("Pad", {{{2, 3, 4, 5}}}, {{"pads", Sizes{1, 1, -1, 2}}});
  CHECK(pad.shape() == Shape{2, 3, 4, 8});
  CHECK(text_of(pad.labels().kinds) == "PPWW");  // the height keeps its size but moves
  CHECK(says(refusal("Resize", {{{1, 1, 4}}}, {{"mode", std::string("area")}, {"sizes", Sizes{8}}}), {"'area'", "nearest, linear, cubic"}));
  CHECK(says(refusal("Resize", {{{1, 1, 4}}}, {{"sizes", Sizes{0}}}), {"'sizes'"}));
  CHECK(says(refusal("Pad", {{{1, 1, 4}}}, {{"pads", Sizes{1}}}), {"two per axis"}));
  CHECK(says(refusal("Pad", {{{1, 1, 4}}}, {{"pads", Sizes{4, 0}}, {"mode", std::string("reflect")}}), {"smaller than the axis of 4"}));
  CHECK(says(refusal("Dropout", {{{2, 2}}}, {{"ratio", 1.5}, {"stream", std::int64_t{0}}}), {"[0, 1]"}));
  CHECK(says(refusal("Dropout", {{{2, 2}}}), {"'stream' is missing"}));
}
