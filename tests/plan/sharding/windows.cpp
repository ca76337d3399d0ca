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
