// Images whose rows and columns are split: windows that do not tile the blocks, with and without padding, strides and gaps, and maps
// between resolutions. All ranks are played and every tensor, gradients included, compared with one rank (mesh.hpp).

#include "base/error.hpp"
#include "plan/sharding/rule_book.hpp"
#include "tests/graph/dims/models.hpp"
#include "tests/plan/sharding/mesh.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;
using namespace rehearsal::plan;
using rehearsal::plan::test::check_equal;
using test_net = rehearsal::graph::test::Net;

namespace {

using Sizes = std::vector<std::int64_t>;

/// One axis of a layer: the other has a window of 3, padded by 1.
struct Slid {
  const char* op;
  std::int64_t kernel = 3, stride = 1, low = 1, high = 1, dilation = 1;
  bool counts_padding = false;
};

Attributes attributes_of(const Slid& w) {
  Attributes a{{"strides", Sizes{w.stride, 1}}, {"pads", Sizes{w.low, 1, w.high, 1}}};
  const std::string_view op = w.op;
  if (op != "AveragePool") a.set("dilations", Sizes{w.dilation, 1});
  if (op == "AveragePool" || op == "MaxPool") a.set("kernel_shape", Sizes{w.kernel, 3});
  if (op == "AveragePool") a.set("count_include_pad", std::int64_t{w.counts_padding ? 1 : 0});
  return a;
}

/// A layer on an image that is itself a result, so that its gradient is needed, too; then all pixels count, each for itself.
TrainingGraph network_of(std::int64_t height, const std::function<TensorId(test_net&, TensorId)>& layer) {
  test_net n;
  const TensorId x = n.op("Mul", {n.input("x", {2, 3, height, 4}), n.parameter("scale", {3, 1, 1})});
  const TensorId y = layer(n, x);
  Shape size = n.b.type(y).shape;
  size[0] = 1;
  const TensorId weighed = n.op("Mul", {y, n.parameter("weights", size)});
  const TensorId sum = n.op("ReduceSum", {weighed}, {{"axes", Sizes{2, 3}}, {"keepdims", std::int64_t{0}}});
  return graph::test::trained(n.model(n.linear(sum, "fc", 3)));
}

TrainingGraph slid(std::int64_t height, const Slid& w) {
  return network_of(height, [&](test_net& n, TensorId x) {
    const std::string_view op = w.op;
    std::vector<TensorId> operands{x};
    if (op == "Conv" || op == "ConvTranspose") operands.push_back(n.parameter("filter", {3, 3, w.kernel, 3}));
    return n.op(op, operands, attributes_of(w));
  });
}

std::vector<MeshAxis> axes_of(const TrainingGraph& t, const std::string& plan) {
  RuleBook rules;
  return sharding_axes(t, std::make_shared<const LogicalDims>(t.graph), parse_plan(plan), 1, rules);
}

/// The axis along which a forward node of this operator is split, by name; empty: along none.
std::string split_axes(const TrainingGraph& t, const std::vector<MeshAxis>& axes, std::string_view op) {
  const Sharding s = shard(t, axes);
  std::string names;
  for (std::size_t n = 0; n < t.graph.nodes().size(); ++n)
    for (std::size_t a = 0; a < axes.size(); ++a)
      if (schema(t.graph.nodes()[n]).name == op && s.choice(static_cast<NodeId>(n), a)) names += axes[a].name + " ";
  return names;
}

void check_split(const TrainingGraph& t, const std::string& plan, std::string_view op) {
  const auto axes = axes_of(t, plan);
  CHECK(split_axes(t, axes, op) == axes.front().name + " ");
  check_equal(t, axes, 3);
}

}  // namespace

TEST_CASE("windows over split rows compute and learn what they do over whole images") {
  for (const char* op : {"Conv", "MaxPool", "AveragePool"})
    for (const Slid& w : {Slid{op}, Slid{op, 2, 2, 0, 0}, Slid{op, 3, 2}, Slid{op, 1, 1, 0, 0}, Slid{op, 1, 2, 0, 0}, Slid{op, 2, 1, 1, 0},
                          Slid{op, 4, 3, 2, 1}, Slid{op, 2, 3, 0, 1}})
      for (const std::int64_t height : {7, 9}) {
        INFO(op << " " << w.kernel << "/" << w.stride << " padded by " << w.low << " and " << w.high << " over " << height << " rows");
        check_split(slid(height, w), "spatial=2x1", op);
        auto counting = w;
        counting.counts_padding = true;
        if (std::string_view(op) == "AveragePool") check_split(slid(height, counting), "spatial=2x1", op);
      }
}

TEST_CASE("gaps in windows, and more blocks than windows reach") {
  for (const char* op : {"Conv", "MaxPool"}) check_split(slid(9, {op, 3, 1, 2, 2, 2}), "spatial=2x1", op);
  for (const std::int64_t blocks : {3, 4}) {
    INFO(blocks << " blocks");
    check_split(slid(9, {"Conv"}), "spatial=" + std::to_string(blocks) + "x1", "Conv");
    check_split(slid(9, {"AveragePool", 3, 2, 1, 1, 1, true}), "spatial=" + std::to_string(blocks) + "x1", "AveragePool");
  }
  // 4 windows for 5 ranks: none is split, and everything is right all the same.
  const auto few = slid(9, {"Conv", 3, 2, 0, 0});
  CHECK(split_axes(few, axes_of(few, "spatial=5x1"), "Conv").empty());
  check_equal(few, axes_of(few, "spatial=5x1"), 3);
}

TEST_CASE("transposed convolutions over split rows, where positions lie between those of the operand") {
  for (const Slid& w : {Slid{"ConvTranspose"}, Slid{"ConvTranspose", 2, 2, 0, 0}, Slid{"ConvTranspose", 3, 2},
                        Slid{"ConvTranspose", 2, 3, 0, 0}, Slid{"ConvTranspose", 4, 2, 1, 1}, Slid{"ConvTranspose", 3, 1, 2, 2, 2}})
    for (const std::int64_t height : {5, 6}) {
      INFO(w.kernel << "/" << w.stride << " over " << height << " rows");
      check_split(slid(height, w), "spatial=2x1", "ConvTranspose");
      check_split(slid(height, w), "spatial=3x1", "ConvTranspose");
    }
}

TEST_CASE("both axes of an image at once") {
  const auto t = network_of(6, [](test_net& n, TensorId x) {
    const TensorId y = n.op("Conv", {x, n.parameter("filter", {4, 3, 3, 3})}, {{"pads", Sizes{1, 1, 1, 1}}});
    return n.op("MaxPool", {y}, {{"kernel_shape", Sizes{3, 3}}, {"strides", Sizes{1, 1}}, {"pads", Sizes{1, 1, 1, 1}}});
  });
  check_equal(t, axes_of(t, "spatial=2x2"), 3);
  check_equal(t, axes_of(t, "spatial=3x2"), 3);
  check_equal(t, axes_of(t, "spatial=2x2,dp=2"), 3);
}

TEST_CASE("maps between resolutions, and borders, over split rows") {
  const auto resized = [](const char* mode, std::int64_t rows) {
    return network_of(6, [&](test_net& n, TensorId x) {
      return n.op("Resize", {x}, {{"sizes", Sizes{rows, 5}}, {"mode", std::string(mode)}});
    });
  };
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (const std::int64_t rows : {4, 11}) {
      INFO(mode << " to " << rows);
      check_split(resized(mode, rows), "spatial=2x1", "Resize");
      check_split(resized(mode, rows), "spatial=3x1", "Resize");
    }
  for (const char* mode : {"constant", "edge", "reflect"}) {
    const auto t = network_of(6, [&](test_net& n, TensorId x) {
      return n.op("Pad", {x}, {{"pads", Sizes{2, 1, 1, 0}}, {"mode", std::string(mode)}});
    });
    INFO(mode);
    check_split(t, "spatial=2x1", "Pad");
    check_split(t, "spatial=3x1", "Pad");
  }
  // The first of 4 blocks is all border, made of no row: what is bordered stays whole.
  const auto bordered = network_of(6, [](test_net& n, TensorId x) {
    const TensorId y = n.op("Conv", {x, n.parameter("filter", {3, 3, 3, 3})}, attributes_of({"Conv"}));
    return n.op("Pad", {y}, {{"pads", Sizes{6, 0, 0, 0}}});
  });
  CHECK(split_axes(bordered, axes_of(bordered, "spatial=4x1"), "Conv") == "height ");
  CHECK(split_axes(bordered, axes_of(bordered, "spatial=4x1"), "Pad").empty());
  check_equal(bordered, axes_of(bordered, "spatial=4x1"), 3);
}
