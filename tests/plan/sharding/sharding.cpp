// Layouts, conversions and the loop over micro-batches on small training graphs.

#include "plan/sharding/sharding.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "tests/catch.hpp"
#include "tests/graph/dims/models.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;
using namespace rehearsal::plan;
using rehearsal::graph::test::Net;

namespace {

const MeshAxis kTwo{"dp", 2, {"batch"}, false};
const MeshAxis kThreeInTime{"time", 3, {"batch"}, true};

/// Steps by axis and kind, as "dp all-reduce" -> tensors.
std::map<std::string, std::vector<std::string>> steps(const TrainingGraph& t, const Sharding& s) {
  std::map<std::string, std::vector<std::string>> found;
  for (const Conversion& c : s.conversions) {
    for (const ConversionStep& step : c.steps)
      found[s.axes[step.axis].name + " " + std::string(name(step.kind))].push_back(t.graph[c.tensor].name);
  }
  return found;
}

std::vector<std::string> gradients(const TrainingGraph& t) {
  std::vector<std::string> names;
  for (const TrainedParameter& p : t.parameters) names.push_back(t.graph[p.gradient].name);
  return names;
}

std::size_t count(const std::map<std::string, std::vector<std::string>>& steps, const std::string& key) {
  return steps.contains(key) ? steps.at(key).size() : 0;
}

bool is_split_by(const AxisLayout& l, int dim) { return l.split() && l.dim == dim && l.factor == 0; }

std::vector<NodeId> nodes_of(const TrainingGraph& t, std::string_view op) {
  std::vector<NodeId> found;
  for (std::size_t n = 0; n < t.graph.nodes().size(); ++n) {
    if (schema(t.graph.nodes()[n]).name == op) found.push_back(static_cast<NodeId>(n));
  }
  return found;
}

}  // namespace

TEST_CASE("data parallel MLP: one all-reduce per parameter, two for the loss, nothing else") {
  const TrainingGraph t = graph::test::mlp();
  const Sharding s = shard(t, {kTwo});
  auto found = steps(t, s);
  REQUIRE(found.size() == 1);
  auto reduced = found["dp all-reduce"];
  CHECK(reduced.size() == 4 + 2);  // 2 weights, 2 biases; sum and weight of the cross-entropy
  for (const std::string& g : gradients(t)) CHECK(std::count(reduced.begin(), reduced.end(), g) == 1);
  CHECK(s.layout(t.loss)[0].replicated());
  CHECK(s.barriers.empty());
  // The gradients are reduced for the update, the loss' sums before the division.
  for (std::size_t n = 0; n < s.conversions.size(); ++n) {
    const Conversion& c = s.conversions[n];
    REQUIRE(!c.consumers.empty());
    const Node& user = t.graph[c.consumers[0].node];
    CHECK((user.phase == Phase::Update) == (element_count(t.graph[c.tensor].type.shape) > 1));
    CHECK(s.fed_by[graph::index(c.consumers[0].node)][c.consumers[0].operand] == static_cast<int>(n));
  }
}

TEST_CASE("data parallel MLP: local shapes are blocks of the batch") {
  const TrainingGraph t = graph::test::mlp(5);
  const Sharding s = shard(t, {kTwo});
  const TensorId x = t.graph.find("x"), w = t.graph.find("fc1.weight");
  CHECK(s.result_shape(x, {0}) == Shape{2, 8});  // floor(5/2)
  CHECK(s.result_shape(x, {1}) == Shape{3, 8});
  CHECK(s.region(s.dims->of(x), s.layout(x), {1}) == Region{{{2, 5}}, {{0, 8}}});
  CHECK(s.result_shape(w, {1}) == Shape{8, 12});
  CHECK(is_split_by(s.layout(x)[0], 0));
  CHECK(s.layout(t.parameters[0].gradient)[0].partial());
}

TEST_CASE("weights that pass through views are reduced once, where they are stored") {
  Net n;
  const TensorId w = n.parameter("w", {12, 8});
  const TensorId y = n.op("MatMul", {n.input("x", {6, 8}), n.transpose(w, {1, 0})});
  const TrainingGraph t = graph::test::trained(n.model(n.op("Add", {y, n.op("MatMul", {n.op("Relu", {y}), n.parameter("v", {12, 12})})})));
  const Sharding s = shard(t, {kTwo});
  auto found = steps(t, s);
  CHECK(found["dp all-reduce"].size() == 2 + 2);
  for (const std::string& g : gradients(t)) CHECK(std::count(found["dp all-reduce"].begin(), found["dp all-reduce"].end(), g) == 1);
}

TEST_CASE("a weight that is used twice is reduced once: sums of pending sums stay pending") {
  const TrainingGraph t = graph::test::gpt();
  const Sharding s = shard(t, {kTwo});
  auto found = steps(t, s);
  REQUIRE(found.size() == 1);
  // wte (tied), wpe, 12 of the layer, 2 of ln_f; sum and weight of the loss.
  CHECK(t.parameters.size() == 16);
  CHECK(found["dp all-reduce"].size() == 16 + 2);
  for (const std::string& g : gradients(t)) CHECK(std::count(found["dp all-reduce"].begin(), found["dp all-reduce"].end(), g) == 1);
}

TEST_CASE("batch normalization adds one small all-reduce forward and one backward") {
  const TrainingGraph t = graph::test::cnn();
  const Sharding s = shard(t, {kTwo});
  auto found = steps(t, s);
  REQUIRE(found.size() == 1);
  // 2 convolutions + classifier's weight and bias; 2 x (forward + backward) sums [2, c], from which the gradients of scale and bias follow;
  // loss 2.
  CHECK(found["dp all-reduce"].size() == 4 + 4 + 2);
  std::size_t forward = 0, backward = 0;
  for (const Conversion& c : s.conversions) {
    if (t.graph[c.tensor].type.shape.size() != 2 || t.graph[c.tensor].type.shape[0] != 2) continue;
    forward += c.phase == Phase::Forward;
    backward += c.phase == Phase::Backward;
  }
  CHECK(forward == 2);
  CHECK(backward == 2);
}

TEST_CASE("micro-batches: gradients accumulate, the target's weight is hoisted") {
  const TrainingGraph t = graph::test::mlp(12);
  const Sharding s = shard(t, {kTwo, kThreeInTime});
  CHECK(s.barriers.empty());
  CHECK_NOTHROW(refuse_barriers(t.graph, s));
  REQUIRE(s.hoisted == nodes_of(t, "CrossEntropyWeight"));
  CHECK(s.parts[graph::index(s.hoisted[0])] == LoopPart::Before);
  CHECK(s.parts[graph::index(nodes_of(t, "CrossEntropySum")[0])] == LoopPart::Inside);
  CHECK(s.parts[graph::index(nodes_of(t, "MatMul")[0])] == LoopPart::Inside);
  CHECK(s.parts[graph::index(t.graph[t.loss].producer)] == LoopPart::After);
  for (const TrainedParameter& p : t.parameters) {
    CHECK(s.layout(p.gradient)[0].partial());
    CHECK(s.layout(p.gradient)[1].partial());
    CHECK(s.parts[graph::index(p.update)] == LoopPart::After);
    const int number = s.fed_by[graph::index(p.update)][1];
    REQUIRE(number >= 0);
    const auto& change = s.conversions[static_cast<std::size_t>(number)].steps;
    REQUIRE(change.size() == 2);
    CHECK(change[0].axis == 1);  // micro-batches are added up before ranks talk
    CHECK(change[1].axis == 0);
  }
  // The target is loaded for the rank's whole batch, and a micro-batch of it is sliced for the loss.
  const TensorId target = t.target;
  CHECK(s.layout(target)[0].split());
  CHECK(s.layout(target)[1].replicated());
  CHECK(s.result_shape(target, {1, 0}) == Shape{6});
  auto found = steps(t, s);
  CHECK(found["time all-reduce"].size() == 4 + 1);  // parameters, and the sum of the loss
  CHECK(found["dp all-reduce"].size() == 4 + 2);
  CHECK(count(found, "time all-gather") == 0);
  for (const std::string& name : found["time slice"]) CHECK(name == t.graph[target].name);
}

TEST_CASE("micro-batches are blocks of the rank's block") {
  const TrainingGraph t = graph::test::mlp(13);
  const Sharding s = shard(t, {kTwo, kThreeInTime});
  const TensorId x = t.graph.find("x");
  // 13 on 2 ranks: [0, 6), [6, 13); the second, 7 rows, in 3: [6, 8), [8, 10), [10, 13).
  const std::vector<Range> expected = {{6, 8}, {8, 10}, {10, 13}};
  for (std::int64_t m = 0; m < 3; ++m)
    CHECK(s.region(s.dims->of(x), s.layout(x), {1, m})[0] == IndexSet{expected[static_cast<std::size_t>(m)]});
}

TEST_CASE("replicas with samples of their own have micro-batches of their own") {
  const TrainingGraph t = graph::test::mlp(8);
  MeshAxis replicas = kTwo, time = kThreeInTime;
  replicas.samples = {6, 2};
  time.counts = {3, 1};
  const Sharding s = shard(t, {replicas, time});
  const TensorId x = t.graph.find("x");
  // Six samples in three micro-batches; then two in one.
  const auto samples = [&](std::int64_t replica, std::int64_t m) { return s.region(s.dims->of(x), s.layout(x), {replica, m})[0]; };
  for (std::int64_t m = 0; m < 3; ++m) CHECK(samples(0, m) == IndexSet{{2 * m, 2 * m + 2}});
  CHECK(samples(1, 0) == IndexSet{{6, 8}});
}

TEST_CASE("micro-batches: batch normalization stands in the way") {
  const TrainingGraph t = graph::test::cnn(12);
  const Sharding s = shard(t, {kTwo, kThreeInTime});
  REQUIRE_FALSE(s.barriers.empty());
  CHECK(schema(t.graph[s.barriers[0].node]).name == "BatchNormApply");
  CHECK(t.graph[s.barriers[0].root].type.shape == Shape{2, 4});
  CHECK_THROWS_AS(refuse_barriers(t.graph, s), Refusal);
  // Without it the same network runs in a loop.
  const TrainingGraph plain = graph::test::cnn(12, false);
  CHECK(shard(plain, {kTwo, kThreeInTime}).barriers.empty());
}

TEST_CASE("micro-batches: statistics of the data alone are taken before the loop") {
  Net n;
  const TensorId x = n.batch_norm(n.input("x", {12, 4}), "bn");
  const TrainingGraph t = graph::test::trained(n.model(n.linear(x, "fc", 3)));
  const Sharding s = shard(t, {kThreeInTime});
  // Forward: the sums over x are hoisted. Backward: the sums over dY depend on parameters, but only scale and bias want them, after the
  // loop.
  CHECK(s.barriers.empty());
  CHECK(std::count(s.hoisted.begin(), s.hoisted.end(), nodes_of(t, "BatchNormSums")[0]) == 1);
}

TEST_CASE("a plan of several axes keeps what does not depend on the batch out of the loop") {
  const TrainingGraph t = graph::test::gpt({.batch = 12});
  const Sharding s = shard(t, {kTwo, kThreeInTime});
  CHECK(s.barriers.empty());
  for (std::size_t n = 0; n < t.graph.nodes().size(); ++n) {
    const auto id = static_cast<NodeId>(n);
    INFO(t.graph[id].name);
    const bool batch = s.choice(id, 1) != nullptr;
    CHECK((s.parts[n] == LoopPart::Inside) == batch);
    CHECK((s.choice(id, 0) != nullptr) == (batch || std::count(s.hoisted.begin(), s.hoisted.end(), id) == 1));
  }
}

TEST_CASE("what is computed from data alone is computed whole rather than gathered") {
  // A padding mask that an operator without a split rule picks from: every rank loads all of it.
  Net n;
  const TensorId mask = n.op("Cast", {n.input("mask", {6, 4}, DType::I64)}, {{"to", std::string("f32")}});
  std::vector<std::int64_t> where;
  for (std::int64_t i = 0; i < 6; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) where.insert(where.end(), {i, j});
  }
  const TensorId indices = n.b.add_constant("where", Value::of_integers(where, {6, 4, 2}));
  const TensorId picked = n.op("GatherND", {mask, indices});
  const TensorId x = n.op("Mul", {n.op("Mul", {n.input("x", {6, 4}), picked}), mask});
  const TrainingGraph t = graph::test::trained(n.model(n.linear(x, "fc", 3)));
  for (const auto& axes : {std::vector<MeshAxis>{kTwo}, {kTwo, kThreeInTime}}) {
    const Sharding s = shard(t, axes);
    auto found = steps(t, s);
    CHECK(count(found, "dp all-gather") == 0);
    CHECK(count(found, "time all-gather") == 0);
    CHECK(s.layout(t.graph.find("mask"))[0].replicated());
    CHECK(found["dp slice"].size() == 2);  // of the picked values and of the mask, for the products
    CHECK(s.barriers.empty());
  }
}

TEST_CASE("uneven shares, more ranks than samples") {
  const TrainingGraph t = graph::test::mlp(3);
  CHECK(shard(t, {kTwo}).use[0].flops_replicated < shard(t, {kTwo}).use[0].flops_total / 100);
  try {
    (void)shard(t, {{"dp", 4, {"batch"}, false}});
    FAIL("4 ranks cannot share 3 samples");
  } catch (const Refusal& error) {
    const std::string text = error.what();
    CHECK(text.find("'dp' of size 4") != std::string::npos);
    CHECK(text.find("in0.batch of size 3") != std::string::npos);
  }
}

TEST_CASE("axes that make no sense are refused by name") {
  const TrainingGraph t = graph::test::mlp();
  CHECK_THROWS_AS(shard(t, {{"dp", 0, {"batch"}, false}}), BadInput);
  CHECK_THROWS_AS(shard(t, {{"tp", 2, {"no.such.dimension"}, false}}), BadInput);
  CHECK_THROWS_AS(shard(t, {kThreeInTime, kThreeInTime}), BadInput);
  const Sharding one = shard(t, {{"dp", 1, {"batch"}, false}});
  CHECK(one.conversions.empty());
  CHECK(std::all_of(one.parts.begin(), one.parts.end(), [](LoopPart p) { return p == LoopPart::Inside; }));
}

TEST_CASE("Megatron's pair of matrices: one all-reduce forward, one backward") {
  // Two layers before, so that the pair's input needs a gradient. fc2 is split by columns, fc3 by rows: the hidden dimension is
  // fc2.weight.1.
  Net n;
  const TensorId x = n.op("MatMul", {n.input("x", {6, 8}), n.parameter("fc1", {8, 10})});
  const TensorId h = n.op("Relu", {n.op("MatMul", {x, n.parameter("fc2", {10, 16})})});
  const TensorId y = n.op("MatMul", {h, n.parameter("fc3", {16, 10})});
  const TrainingGraph t = graph::test::trained(n.model(n.op("MatMul", {n.op("Relu", {y}), n.parameter("fc4", {10, 3})})));
  const Sharding s = shard(t, {{"tp", 2, {"fc2.1"}, false}});
  CHECK(is_split_by(s.layout(t.graph.find("fc2"))[0], 1));
  CHECK(is_split_by(s.layout(t.graph.find("fc3"))[0], 0));
  auto found = steps(t, s);
  REQUIRE(found.size() == 1);
  CHECK(found["tp all-reduce"].size() == 2);
  std::size_t forward = 0;
  for (const Conversion& c : s.conversions) forward += c.phase == Phase::Forward;
  CHECK(forward == 1);
  for (const TrainedParameter& p : t.parameters) CHECK(s.layout(p.gradient) == s.layout(p.value));
}

TEST_CASE("tensor parallel attention and feed-forward: two all-reduces a layer and direction") {
  const TrainingGraph t = graph::test::gpt({.layers = 3});
  const auto dims = std::make_shared<const LogicalDims>(t.graph);
  const NodeId softmax = nodes_of(t, "Softmax")[0];
  // Every layer has heads and a hidden dimension of its own.
  MeshAxis tp{"tp", 2, {}, false};
  for (const NodeId n : nodes_of(t, "Softmax")) tp.dims.push_back(dims->name(dims->of(t.graph[n].outputs[0])[1][0]));
  for (const std::string layer : {"0", "1", "2"}) tp.dims.push_back(dims->name(dims->of(t.graph.find("h." + layer + ".up.weight"))[1][0]));
  const Sharding s = shard(t, dims, {tp});
  CHECK(s.choice(softmax, 0) != nullptr);
  std::size_t forward = 0, backward = 0;
  for (const Conversion& c : s.conversions) {
    INFO(t.graph[c.tensor].name);
    REQUIRE(c.steps.size() == 1);
    CHECK(c.steps[0].kind == ConversionKind::AllReduce);
    (c.phase == Phase::Forward ? forward : backward) += 1;
  }
  CHECK(forward == 6);
  CHECK(backward == 6);
  // The fused weight [16, 48] is split by heads: each rank owns a strip of q, of k and of v.
  const TensorId qkv = t.graph.find("h.0.qkv.weight");
  CHECK(s.region(dims->of(qkv), s.layout(qkv), {1})[1] == IndexSet{{8, 16}, {24, 32}, {40, 48}});
  CHECK(s.result_shape(qkv, {1}) == Shape{16, 24});
}

TEST_CASE("nested axes that change together are unwound from the inside") {
  // Tensor stored S by both axes, wanted R by the outer and S by the inner: gather inner, gather outer, slice again.
  const TrainingGraph t = graph::test::mlp(12);
  const Sharding s = shard(t, {kTwo, {"inner", 2, {"batch"}, false}});
  const TensorId x = t.graph.find("x");
  std::vector<std::int64_t> starts;
  for (std::int64_t a = 0; a < 2; ++a) {
    for (std::int64_t b = 0; b < 2; ++b) starts.push_back(s.region(s.dims->of(x), s.layout(x), {a, b})[0].front().begin);
  }
  CHECK(starts == std::vector<std::int64_t>{0, 3, 6, 9});
  auto found = steps(t, s);
  CHECK(found["dp all-reduce"].size() == found["inner all-reduce"].size());
}

TEST_CASE("pending sums pass through operators that are linear, and no others") {
  const auto linear = [](std::string_view op) { return graph::schema(graph::op(op)).linear; };
  CHECK(linear("Transpose") == graph::LinearIn::First);
  CHECK(linear("Scale") == graph::LinearIn::First);
  CHECK(linear("Concat") == graph::LinearIn::All);
  CHECK(linear("Sub") == graph::LinearIn::All);
  CHECK(linear("Relu") == graph::LinearIn::None);
  CHECK(linear("Mul") == graph::LinearIn::None);  // in either operand, not in both together
}
