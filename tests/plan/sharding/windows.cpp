// Which rows of an image a block of rows needs, by hand.
#include "plan/sharding/windows.hpp"

#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

using Sizes = std::vector<std::int64_t>;

/// A row of the operator table on images of 8 columns; rows are cut.
class Windowed {
 public:
  Windowed(const char* name, const std::vector<graph::Shape>& shapes, graph::Attributes attributes)
      : schema_(graph::op_table()[graph::op(name)]), attributes_(std::move(attributes)) {
    for (const auto& shape : shapes) inputs_.emplace_back(graph::TensorType{DType::F32, shape});
    for (auto& type : schema_.infer({inputs_, {}, attributes_})) outputs_.emplace_back(std::move(type));
  }
  Windowed(const Windowed&) = delete;
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> rows(std::int64_t begin, std::int64_t end, std::size_t operand = 0) const {
    const auto needed = rows_needed(node(), operand, {begin, end});
    return {needed.begin, needed.end};
  }
  [[nodiscard]] bool can_be_cut(std::int64_t blocks) const { return can_cut(node(), blocks); }
  [[nodiscard]] std::int32_t halo(std::size_t operand = 0) const { return halo_number(node(), operand); }
  /// An attribute of the kernel that works on a block.
  [[nodiscard]] Sizes local(const char* name, std::int64_t begin, std::int64_t end) const {
    return local_attributes(node(), {begin, end}, attributes_).integers(name);
  }
  [[nodiscard]] std::int64_t height() const { return outputs_[0]->shape[2]; }

 private:
  [[nodiscard]] WindowedNode node() const { return {schema_, {inputs_, outputs_, attributes_}, 0}; }
  const graph::OpSchema& schema_;
  graph::Attributes attributes_;
  std::vector<std::optional<graph::TensorType>> inputs_, outputs_;
};

graph::Attributes window(std::int64_t pad, std::int64_t stride = 1, std::int64_t dilation = 1) {
  return {{"pads", Sizes(4, pad)}, {"strides", Sizes(2, stride)}, {"dilations", Sizes(2, dilation)}};
}

graph::Attributes with(graph::Attributes attributes, const char* name, Sizes values) {
  attributes.set(name, std::move(values));
  return attributes;
}

using Rows = std::pair<std::int64_t, std::int64_t>;

}  // namespace

TEST_CASE("rows that a block of a convolution's result needs") {
  // Result row o reads rows o·stride - pad + tap·dilation, of which there are 8.
  const Windowed same("Conv", {{2, 4, 8, 8}, {6, 4, 3, 3}}, window(1));
  CHECK(same.rows(0, 4) == Rows(0, 5));
  CHECK(same.rows(4, 8) == Rows(3, 8));
  CHECK(same.rows(2, 3) == Rows(1, 4));
  const Windowed half("Conv", {{2, 4, 8, 8}, {6, 4, 3, 3}}, window(1, 2));
  REQUIRE(half.height() == 4);
  CHECK(half.rows(0, 2) == Rows(0, 4));  // rows -1 ... 3
  CHECK(half.rows(2, 4) == Rows(3, 8));  // rows 3 ... 7
  const Windowed patches("Conv", {{2, 4, 8, 8}, {6, 4, 2, 2}}, window(0, 2));
  CHECK(patches.rows(1, 2) == Rows(2, 4));  // nothing of other patches
  const Windowed wide("Conv", {{2, 4, 8, 8}, {6, 4, 3, 3}}, window(2, 1, 2));
  CHECK(wide.rows(4, 8) == Rows(2, 8));
  const Windowed pool("MaxPool", {{2, 4, 8, 8}}, with(window(1, 2), "kernel_shape", {3, 3}));
  CHECK(pool.rows(1, 2) == Rows(1, 4));
}

TEST_CASE("rows of a result's gradient that a block of the operand's gradient needs") {
  // Row r of the operand is read by results o with o·stride - pad + tap = r: from (r + pad - 2) / stride up, to (r + pad) / stride down.
  const Windowed same("ConvGradInput", {{2, 6, 8, 8}, {6, 4, 3, 3}}, with(window(1), "shape", {8, 8}));
  CHECK(same.rows(0, 4) == Rows(0, 5));
  CHECK(same.rows(4, 8) == Rows(3, 8));
  const Windowed half("ConvGradInput", {{2, 6, 4, 4}, {6, 4, 3, 3}}, with(window(1, 2), "shape", {8, 8}));
  CHECK(half.rows(0, 4) == Rows(0, 3));  // row 3 is read by results 1 and 2
  CHECK(half.rows(4, 8) == Rows(2, 4));  // row 4 by result 2 alone
  const Windowed patches("ConvGradInput", {{2, 6, 4, 4}, {6, 4, 2, 2}}, with(window(0, 2), "shape", {8, 8}));
  CHECK(patches.rows(0, 4) == Rows(0, 2));
  CHECK(patches.rows(2, 4) == Rows(1, 2));
}

TEST_CASE("padding that is left of a window's own at the borders of a block") {
  // Columns keep theirs: low and high of rows are the first and the third number.
  const Windowed same("Conv", {{2, 4, 8, 8}, {6, 4, 3, 3}}, window(1));
  CHECK(same.local("pads", 0, 4) == Sizes{1, 1, 0, 1});
  CHECK(same.local("pads", 2, 3) == Sizes{0, 1, 0, 1});
  CHECK(same.local("pads", 4, 8) == Sizes{0, 1, 1, 1});
  const Windowed half("Conv", {{2, 4, 8, 8}, {6, 4, 3, 3}}, window(1, 2));
  CHECK(half.local("pads", 0, 2) == Sizes{1, 1, 0, 1});
  CHECK(half.local("pads", 2, 4) == Sizes{0, 1, 0, 1});  // the last window ends with row 7
  // A gradient's block is what is left of the rows under its windows: of result rows 0 ... 4 those are rows -1 ... 5, of which 0 ... 3
  // stay.
  const Windowed gradient("ConvGradInput", {{2, 6, 8, 8}, {6, 4, 3, 3}}, with(window(1), "shape", {8, 8}));
  CHECK(gradient.local("pads", 0, 4) == Sizes{1, 1, 2, 1});
  CHECK(gradient.local("pads", 4, 8) == Sizes{2, 1, 1, 1});  // of rows 2 ... 8
  CHECK(gradient.local("shape", 0, 3) == Sizes{3, 8});
  const Windowed halved("ConvGradInput", {{2, 6, 4, 4}, {6, 4, 3, 3}}, with(window(1, 2), "shape", {8, 8}));
  CHECK(halved.local("pads", 0, 4) == Sizes{1, 1, 2, 1});  // result rows 0 ... 2: rows -1 ... 5
  CHECK(halved.local("pads", 4, 8) == Sizes{1, 1, 0, 1});  // result rows 2 and 3: rows 3 ... 7
}

TEST_CASE("rows that no window reaches are added to a transposed convolution's block") {
  // Windows of 2 rows every 3: rows 0 1, 3 4, 6 7 of 8. Rows 2 and 5 are nobody's.
  const Windowed gaps("ConvTranspose", {{2, 4, 3, 3}, {4, 6, 2, 2}}, window(0, 3));
  REQUIRE(gaps.height() == 8);
  CHECK(gaps.rows(0, 3) == Rows(0, 1));
  CHECK(gaps.rows(3, 6) == Rows(1, 2));
  CHECK(gaps.rows(6, 8) == Rows(2, 3));
  CHECK(gaps.local("output_padding", 0, 3) == Sizes{1, 0});
  CHECK(gaps.local("output_padding", 3, 6) == Sizes{1, 0});
  CHECK(gaps.local("output_padding", 6, 8) == Sizes{0, 0});
  // A block that begins between windows takes the one before, whose rows are padded away.
  CHECK(gaps.rows(2, 5) == Rows(0, 2));
  CHECK(gaps.local("pads", 2, 5) == Sizes{2, 0, 0, 0});
  CHECK(gaps.local("output_padding", 2, 5) == Sizes{0, 0});
}

TEST_CASE("windows that need the same rows of an operand have one number, the block's own rows have 0") {
  const graph::Shape image{2, 4, 8, 8}, filter{6, 4, 3, 3};
  const auto of = [&](const graph::Attributes& attributes) { return Windowed("Conv", {image, filter}, attributes).halo(); };
  CHECK(of(window(1)) == Windowed("Conv", {{2, 4, 8, 8}, {9, 4, 3, 3}}, window(1)).halo());
  CHECK(of(window(1)) != of(window(1, 2)));
  CHECK(of(window(1)) != of(window(2)));
  CHECK(of(window(2)) != of(window(2, 1, 2)));
  CHECK(of(window(1)) > 0);
  const auto pool = [](std::int64_t kernel, std::int64_t pad, std::int64_t stride) {
    return Windowed("MaxPool", {{2, 4, 8, 8}}, with(window(pad, stride), "kernel_shape", {kernel, kernel})).halo();
  };
  CHECK(pool(1, 0, 1) == 0);
  CHECK(pool(1, 0, 2) != 0);
  CHECK(pool(2, 0, 1) != 0);
  // The gradient of a filter works on blocks of the result's gradient, and needs their rows of the image.
  const Windowed filters("ConvGradWeight", {image, {2, 6, 8, 8}}, with(window(1), "kernel_shape", {3, 3}));
  CHECK(filters.halo(1) == 0);
  CHECK(filters.halo(0) != 0);
  CHECK(filters.rows(4, 8, 0) == Rows(3, 8));
  CHECK(filters.rows(4, 8, 1) == Rows(4, 8));
}

TEST_CASE("what an average is divided by is the same for every window of a block, or its gradient stays whole") {
  const auto can_be_cut = [](const Sizes& pads, std::int64_t counted) {
    auto attributes = with(with(window(0), "pads", pads), "kernel_shape", {3, 3});
    attributes.set("count_include_pad", counted);
    const Windowed forward("AveragePool", {{2, 4, 8, 8}}, attributes);
    CHECK(forward.can_be_cut(2));  // padding of a block is that of the image
    return Windowed("AveragePoolGrad", {{2, 4, forward.height(), 6 + pads[1] + pads[3]}}, with(attributes, "shape", {8, 8})).can_be_cut(2);
  };
  CHECK(can_be_cut({0, 0, 0, 0}, 0));
  CHECK_FALSE(can_be_cut({1, 0, 0, 0}, 0));
  CHECK_FALSE(can_be_cut({0, 0, 1, 0}, 0));
  CHECK_FALSE(can_be_cut({0, 1, 0, 0}, 0));  // columns, too: a block's kernel counts padding all round
  CHECK_FALSE(can_be_cut({0, 0, 0, 1}, 0));
  CHECK(can_be_cut({1, 1, 1, 1}, 1));
}

TEST_CASE("an axis is cut where every block has rows, and reads some") {
  const Windowed same("Conv", {{2, 4, 8, 8}, {6, 4, 3, 3}}, window(1));
  CHECK(same.can_be_cut(8));
  CHECK_FALSE(same.can_be_cut(9));
  const Windowed half("Conv", {{2, 4, 8, 8}, {6, 4, 3, 3}}, window(1, 2));
  CHECK(half.can_be_cut(4));
  CHECK_FALSE(half.can_be_cut(5));
  // Of 9 rows in windows of 2 a fifth window stands out of the image at its end: it would be another one on a block.
  const auto pool = with(window(0, 2), "kernel_shape", {2, 2});
  CHECK(Windowed("MaxPool", {{2, 4, 9, 8}}, pool).can_be_cut(4));
  auto rounded_up = pool;
  rounded_up.set("ceil_mode", std::int64_t{1});
  CHECK_FALSE(Windowed("MaxPool", {{2, 4, 9, 8}}, rounded_up).can_be_cut(4));
}
