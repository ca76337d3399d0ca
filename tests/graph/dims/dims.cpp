// Logical dimensions of whole training graphs.

#include "graph/dims/dims.hpp"

#include <algorithm>
#include <map>

#include "graph/narrow_type.hpp"
#include "graph/op_schema.hpp"
#include "graph/zoo/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/cpu_time.hpp"
#include "tests/graph/dims/models.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;
using rehearsal::graph::test::Net;

namespace {

bool can_split(const LogicalDims& dims, NodeId node, AtomId atom) {
  const auto& ways = dims.iteration(node);
  return std::any_of(ways.begin(), ways.end(), [&](const IterDim& w) { return w.atom == atom; });
}

/// Nodes that read or write a tensor with the batch, and cannot be split along it.
std::vector<std::string> not_by_batch(const TrainingGraph& t, const LogicalDims& dims) {
  std::vector<std::string> names;
  REQUIRE(dims.batch().size() == 1);
  const AtomId batch = dims.batch().front();
  const auto has = [&](const TensorDims& d) {
    return std::any_of(d.begin(), d.end(), [&](const Factors& f) { return std::find(f.begin(), f.end(), batch) != f.end(); });
  };
  for (std::size_t i = 0; i < t.graph.nodes().size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    bool concerned = false;
    for (const TensorId x : t.graph[id].inputs) concerned = concerned || (x != TensorId::None && has(dims.of(x)));
    for (const TensorId x : t.graph[id].outputs) concerned = concerned || (x != TensorId::None && has(dims.of(x)));
    if (concerned && !can_split(dims, id, batch)) names.push_back(t.graph[id].name);
  }
  return names;
}

NodeId producer(const Graph& g, const std::string& tensor) { return g[g.find(tensor)].producer; }

std::vector<std::int64_t> sizes(const LogicalDims& dims, const Factors& dimension) {
  std::vector<std::int64_t> out;
  for (const AtomId a : dimension) out.push_back(dims.atoms().size(a));
  return out;
}

using Sizes = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("the batch is found through an MLP, forward, backward and loss") {
  const TrainingGraph t = graph::test::mlp();
  const LogicalDims dims(t.graph);
  CHECK(dims.name(dims.batch().front()) == "in0.batch");
  CHECK(dims.misfits().empty());
  CHECK(not_by_batch(t, dims).empty());
}

TEST_CASE("the batch is found through a convolutional network with batch normalization") {
  const TrainingGraph t = graph::test::cnn();
  const LogicalDims dims(t.graph);
  CHECK(dims.misfits().empty());
  CHECK(not_by_batch(t, dims).empty());
  const Factors& rows = dims.of(t.graph.inputs()[0])[2];
  REQUIRE(rows.size() == 1);
  CHECK(dims.atoms().is_window(rows[0]));
  CHECK(dims.name(rows[0]) == "in0.height");
}

TEST_CASE("the batch is found through attention, and heads reach the fused weight") {
  const TrainingGraph t = graph::test::gpt();
  const LogicalDims dims(t.graph);
  CHECK(dims.misfits().empty());
  CHECK(not_by_batch(t, dims).empty());
  // The weight [16, 48] ends in q|k|v, each 4 heads of 4: it can be split by the heads, which are also dimension 1 of the attention scores.
  const TensorId weight = t.graph.find("h.0.qkv.weight");
  const Factors& columns = dims.of(weight)[1];
  REQUIRE(columns.size() == 1);
  REQUIRE(dims.atoms().is_sum(columns[0]));
  const auto softmax =
      std::find_if(t.graph.nodes().begin(), t.graph.nodes().end(), [](const Node& n) { return schema(n).name == "Softmax"; });
  const Factors& heads = dims.of(softmax->outputs[0])[1];
  REQUIRE(sizes(dims, heads) == Sizes{4});
  const auto splits = dims.atoms().splits_of(columns[0]);
  CHECK(std::find(splits.begin(), splits.end(), heads[0]) != splits.end());
}

TEST_CASE("gradients and optimizer state have the dimensions of their parameter") {
  const TrainingGraph t = graph::test::gpt();
  const LogicalDims dims(t.graph);
  for (const TrainedParameter& p : t.parameters) {
    INFO(t.graph[p.value].name);
    CHECK(dims.of(p.gradient) == dims.of(p.value));
    for (const TensorId slot : p.slots) CHECK(dims.of(slot) == dims.of(p.value));
  }
}

TEST_CASE("16-bit parameters, their f32 copies and moments have the same dimensions, also where a gradient alone does not tell") {
  // The gradient of a table has rows of its own: no update node reads table and gradient.
  for (const auto* model : {"gpt?layers=1&hidden=16&heads=2&seq=6&vocab=24", "resnet18?image=32&classes=4",
                            "llama?layers=1&hidden=16&heads=2&kv_heads=2&ffn=24&seq=6&vocab=24"}) {
    const auto narrow = with_narrow_type(zoo::build(model, 2), DType::BF16).graph;
    TrainingOptions options;
    options.optimizer.name = "adam";
    const TrainingGraph t = build_training_graph(narrow, options);
    const LogicalDims dims(t.graph);
    for (const TrainedParameter& p : t.parameters) {
      INFO(model << ": " << t.graph[p.value].name);
      REQUIRE(p.slots.size() >= 2);
      for (const TensorId slot : p.slots) CHECK(dims.of(slot) == dims.of(p.value));
    }
  }
}

TEST_CASE("Reshape and Transpose carry factors; a misfit is a barrier for its group alone") {
  Net n;
  const TensorId x = n.input("x", {6, 4, 5});
  const TensorId flat = n.reshape(x, {24, 5});        // [6*4, 5]
  const TensorId turned = n.transpose(flat, {1, 0});  // [5, 6*4]
  const TensorId odd = n.reshape(turned, {5, 8, 3});  // 6 x 4 does not align with 8 x 3; the 5 does
  n.b.set_outputs({odd});
  const Graph g = std::move(n.b).build();
  const LogicalDims dims(g);
  const TensorDims& in = dims.of(g.inputs()[0]);
  CHECK(dims.of(g[producer(g, g[g.outputs()[0]].name)].inputs[0])[1] == Factors{in[0][0], in[1][0]});
  CHECK(dims.of(g.outputs()[0])[0] == in[2]);
  CHECK(sizes(dims, dims.of(g.outputs()[0])[1]) == Sizes{8});
  REQUIRE(dims.misfits().size() == 1);
  const auto id = static_cast<NodeId>(2);
  CHECK(can_split(dims, id, in[2][0]));
  CHECK_FALSE(can_split(dims, id, in[0][0]));
}

TEST_CASE("Split and Concat: pieces of a dimension are its segments") {
  Net n;
  const TensorId x = n.input("x", {6, 10});
  const auto parts = n.b.add("Split", {x}, {{"axis", std::int64_t{1}}, {"split", Sizes{4, 6}}});
  const TensorId again = n.op("Concat", {parts[1], parts[0]}, {{"axis", std::int64_t{1}}});
  n.b.set_outputs({again});
  const Graph g = std::move(n.b).build();
  const LogicalDims dims(g);
  const Factors& whole = dims.of(g.inputs()[0])[1];
  const Factors& swapped = dims.of(g.outputs()[0])[1];
  REQUIRE(dims.atoms().is_sum(whole[0]));
  REQUIRE(dims.atoms().is_sum(swapped[0]));
  CHECK(dims.atoms().leaves(dims.atoms().segments(whole[0])[0]) == dims.atoms().leaves(dims.atoms().segments(swapped[0])[1]));
  for (int node = 0; node < 2; ++node) CHECK(can_split(dims, static_cast<NodeId>(node), dims.batch().front()));
}

TEST_CASE("a Slice of rows and of a factored dimension") {
  Net n;
  const TensorId x = n.reshape(n.input("x", {6, 4, 5}), {6, 20});
  const TensorId half =
      n.op("Slice", {x}, {{"starts", Sizes{10}}, {"ends", Sizes{20}}, {"axes", Sizes{1}}});  // two of the four groups of 5
  const TensorId through = n.op("Slice", {x}, {{"starts", Sizes{3}}, {"ends", Sizes{9}}, {"axes", Sizes{1}}});  // cuts groups
  n.b.set_outputs({half, through});
  const Graph g = std::move(n.b).build();
  const LogicalDims dims(g);
  CHECK(sizes(dims, dims.of(g.outputs()[0])[1]) == Sizes{2, 5});
  CHECK(sizes(dims, dims.of(g.outputs()[1])[1]) == Sizes{6});
  REQUIRE(dims.misfits().size() == 1);
  CHECK(dims.misfits()[0].node == g[g.outputs()[1]].producer);
}

TEST_CASE("one constant used in two places does not tie their dimensions together") {
  Net n;
  const TensorId shared = n.constant("shared", {4});
  const TensorId a = n.op("Mul", {n.input("a", {6, 4}), shared}), b = n.op("Mul", {n.input("b", {6, 4}), shared});
  n.b.set_outputs({a, b});
  const Graph g = std::move(n.b).build();
  const LogicalDims dims(g);
  CHECK(dims.of(g.inputs()[0])[1] != dims.of(g.inputs()[1])[1]);
  CHECK(dims.of_operand(static_cast<NodeId>(0), 1)[0] == dims.of(g.inputs()[0])[1]);
  CHECK(dims.of_operand(static_cast<NodeId>(1), 1)[0] == dims.of(g.inputs()[1])[1]);
}

TEST_CASE("report: what can be split, and what blocks it") {
  const TrainingGraph t = graph::test::gpt();
  const LogicalDims dims(t.graph);
  const auto report = report_dims(t.graph, dims);
  const auto named = [&](const std::string& name) {
    const auto found = std::find_if(report.begin(), report.end(), [&](const DimReport& d) { return d.name == name; });
    REQUIRE(found != report.end());
    return *found;
  };
  CHECK(named("in0.batch").size == 6);
  CHECK(named("in0.batch").splittable == 6);
  CHECK(named("in0.batch").blocked_by.empty());
  // The residual width is contracted in MatMul but normalized by LayerNormalization, which needs it whole: ln1, ln2, ln_f.
  const DimReport width = named("wte.1");
  CHECK(width.splittable == 16);
  CHECK(width.blocked_by.size() == 3);
  std::vector<std::string> names;
  for (const DimReport& d : report) names.push_back(d.name);
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

TEST_CASE("only what reads a dimension whole blocks it") {
  // Of each layer heads, the features that queries and keys contract, those of values, and the feed-forward width; vocabulary, width, batch
  // and sequence once. The fused q|k|v is no dimension of its own: its heads are. LayerNormalization alone reads one whole.
  const TrainingGraph t = build_training_graph(zoo::build("gpt?layers=12&hidden=48&heads=4&seq=10&vocab=31&batch=3"), {});
  const LogicalDims dims(t.graph);
  const auto report = report_dims(t.graph, dims);
  CHECK(report.size() == 4 * 12 + 4);
  for (const DimReport& d : report) {
    INFO(d.name);
    CHECK(d.blocked_by.empty() == (d.size != 48));
    CHECK(d.size != 3 * 48);
  }
}

namespace {

/// Sizes of the groups that have a role, by name.
std::map<std::string, std::int64_t> groups_of(const std::string& reference) {
  const TrainingGraph t = build_training_graph(zoo::build(reference), {});
  const LogicalDims dims(t.graph);
  std::map<std::string, std::int64_t> sizes;
  for (const DimGroup& g : group_dims(t.graph, dims)) {
    CHECK(sizes.emplace(g.name, g.size).second);
    CHECK(g.splittable == g.size);
    CHECK(!g.members.empty());
    // a plan may name it
    CHECK(dims.named(g.name).size() >= g.members.size());
  }
  return sizes;
}

}  // namespace

TEST_CASE("dimensions are called what they are used for") {
  auto gpt = groups_of("gpt?layers=3&hidden=16&heads=2&seq=6&vocab=11&batch=5");
  // two heads of 8 features; the 8 that queries and keys contract and the 8 of the values are different dimensions of one role
  const std::map<std::string, std::int64_t> expected{{"batch", 5},   {"sequence", 6},      {"heads", 2},      {"head-features", 8},
                                                     {"hidden", 16}, {"feed-forward", 64}, {"vocabulary", 11}};
  for (const auto& [name, size] : expected) {
    INFO(name);
    CHECK(gpt[name] == size);
  }
  auto untied = groups_of("moe?layers=1&hidden=16&heads=4&kv_heads=2&ffn=12&seq=8&vocab=19&experts=3&batch=5");
  CHECK(untied["vocabulary"] == 19);
  CHECK(untied["head-features:4"] == 4);
  CHECK(!untied.contains("classes"));
  auto moe = groups_of("moe?layers=1&hidden=16&heads=4&kv_heads=2&ffn=12&seq=8&vocab=11&experts=3&batch=5");
  CHECK(moe["experts"] == 3);
  CHECK(moe["feed-forward"] == 12);
  auto image = groups_of("resnet18?image=64&classes=7&batch=3");
  CHECK(image["batch"] == 3);
  CHECK(image["classes"] == 7);
  CHECK(image["channels:512"] == 512);
  // 64 pixels, halved five times
  CHECK(image["height:64"] == 64);
  CHECK(image["width:2"] == 2);
  auto volume = groups_of("unet3d?image=16&channels=3&max_channels=8&depth=2&batch=2");
  CHECK(volume["depth:16"] == 16);
  CHECK(volume["height:4"] == 4);
}

TEST_CASE("a plan's names of roles mean all layers") {
  const TrainingGraph t = build_training_graph(zoo::build("gpt?layers=3&hidden=16&heads=2&seq=6&vocab=11&batch=5"), {});
  const LogicalDims dims(t.graph);
  CHECK(dims.named("heads").size() == 3);
  CHECK(dims.named("feed-forward:64").size() == 3);
  CHECK(dims.named("feed-forward:63").empty());
  CHECK(dims.named("nothing").empty());
}

TEST_CASE("degenerate shapes: scalars, ones, nothing at all") {
  Net n;
  const TensorId one = n.input("one", {1, 1});
  const TensorId scalar = n.reshape(one, {});
  const TensorId none = n.op("Slice", {n.input("x", {6, 4})}, {{"starts", Sizes{2}}, {"ends", Sizes{2}}, {"axes", Sizes{1}}});
  const TensorId empty = n.reshape(none, {0, 3});
  n.b.set_outputs({scalar, empty});
  const Graph g = std::move(n.b).build();
  const LogicalDims dims(g);
  CHECK(dims.of(g.outputs()[0]).empty());
  CHECK(dims.atoms().size(dims.of(g.outputs()[1])[0]) == 0);
  CHECK(dims.name(dims.batch().front()) == "in1.batch");
}

TEST_CASE("Concat of a single operand and of empty pieces") {
  Net n;
  const TensorId x = n.input("x", {6, 4});
  const auto parts = n.b.add("Split", {x}, {{"axis", std::int64_t{1}}, {"split", Sizes{4, 0}}});
  const TensorId again = n.op("Concat", {parts[0], parts[1]}, {{"axis", std::int64_t{1}}});
  const TensorId alone = n.op("Concat", {again}, {{"axis", std::int64_t{0}}});
  n.b.set_outputs({alone});
  const Graph g = std::move(n.b).build();
  const LogicalDims dims(g);
  CHECK(dims.of(g.outputs()[0]) == dims.of(g.inputs()[0]));
}

TEST_CASE("thousands of nodes take a fraction of a second") {
  // 96 layers: about 96 x 60 nodes, forward and backward.
  const TrainingGraph t = graph::test::gpt({.layers = 96});
  const double start = cpu_seconds();
  const LogicalDims dims(t.graph);
  const double seconds = cpu_seconds() - start;
  CHECK(not_by_batch(t, dims).empty());
  INFO(t.graph.nodes().size() << " nodes in " << seconds << " s");
  CHECK(t.graph.nodes().size() > 4000);
  CHECK(seconds < 2.0);  // of the processor, in a debug build
}

TEST_CASE("thirty thousand nodes take less than a second") {
  const TrainingGraph t = build_training_graph(zoo::build("gpt?layers=400&hidden=64&heads=4&seq=16&vocab=32&batch=4"), {});
  CHECK(t.graph.nodes().size() > 30'000);
#ifdef NDEBUG
  constexpr double kMost = 1.0;
#else
  constexpr double kMost = 20.0;  // with sanitizers
#endif
  const double start = cpu_seconds();
  const LogicalDims dims(t.graph);
  const auto groups = group_dims(t.graph, dims);
  const double seconds = cpu_seconds() - start;
  INFO(t.graph.nodes().size() << " nodes in " << seconds << " s");
  CHECK(groups.size() < 100);
  CHECK(seconds < kMost);
}
