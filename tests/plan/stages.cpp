// Where pipelines are cut, by hand: by cost, by the speeds of stages, and where few bytes cross.
#include "plan/schedules/stages.hpp"

#include <map>

#include "base/error.hpp"
#include "graph/zoo/layers.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/lowering/stage_work.hpp"
#include "plan/sharding/fusion.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

using Costs = std::map<std::string, double>;

/// Products n0 ... with as many features as given behind each, of a batch of 4.
graph::TrainingGraph chain(const std::vector<std::int64_t>& widths) {
  graph::zoo::Layers layers;
  auto x = layers.input("input", {4, 8});
  for (std::size_t n = 0; n < widths.size(); ++n) x = layers.linear("n" + std::to_string(n), x, widths[n]);
  return graph::build_training_graph(graph::with_initial_values(std::move(layers).finish(x, "out")), {});
}

/// Nodes cost what is said of their names, the others nothing.
std::vector<double> node_costs(const graph::TrainingGraph& t, const Costs& costs) {
  std::vector<double> all;
  for (const auto& node : t.graph.nodes()) {
    const auto at = costs.find(node.name);
    all.push_back(at == costs.end() ? 0.0 : at->second);
  }
  return all;
}

/// The stage of every forward node of the chain that is named n0, n1, ...
std::vector<int> stages_of(const graph::TrainingGraph& t, const char* plan, const StageBalance& balance) {
  const auto stages = assign_stages(t, parse_plan(plan), balance);
  std::vector<int> found;
  for (std::size_t n = 0; n < t.graph.nodes().size(); ++n)
    if (t.graph.nodes()[n].name.size() == 2 && t.graph.nodes()[n].phase == graph::Phase::Forward) found.push_back(stages.of_node[n]);
  return found;
}

std::vector<int> stages_of(const graph::TrainingGraph& t, const char* plan, const Costs& costs, const std::vector<double>& speeds = {1}) {
  StageBalance balance;
  for (const double speed : speeds) {
    auto& of_stage = balance.node_costs.emplace_back(node_costs(t, costs));
    for (double& cost : of_stage) cost /= speed;
  }
  return stages_of(t, plan, balance);
}

/// Where a byte that crosses costs so much.
std::vector<int> stages_with_messages(const graph::TrainingGraph& t, const Costs& costs, double per_byte) {
  StageBalance balance{{node_costs(t, costs)}, {}};
  for (const auto& tensor : t.graph.tensors()) balance.sending_costs.push_back(per_byte * graph::size_of(tensor.type).value());
  return stages_of(t, "pp=2", balance);
}

int stage_of(const graph::TrainingGraph& t, const StageAssignment& stages, const std::string& name) {
  for (std::size_t n = 0; n < t.graph.nodes().size(); ++n)
    if (t.graph.nodes()[n].name == name) return stages.of_node[n];
  return -2;
}

}  // namespace

TEST_CASE("stages take equal parts of what nodes cost") {
  const auto t = chain({8, 8, 8, 8, 8, 8});
  CHECK(stages_of(t, "pp=2", {{"n0", 1}, {"n1", 1}, {"n2", 1}, {"n3", 1}, {"n4", 1}, {"n5", 1}}) == std::vector{0, 0, 0, 1, 1, 1});
  CHECK(stages_of(t, "pp=3", {{"n0", 1}, {"n1", 1}, {"n2", 1}, {"n3", 1}, {"n4", 1}, {"n5", 1}}) == std::vector{0, 0, 1, 1, 2, 2});
  // 3 of 9, and 3 of 9: the first node alone, then four.
  CHECK(stages_of(t, "pp=3", {{"n0", 3}, {"n1", 1}, {"n2", 1}, {"n3", 1}, {"n4", 1}, {"n5", 2}}) == std::vector{0, 1, 1, 1, 2, 2});
  // All of it stands last: one cut is right before it, the other behind, where the loss is.
  CHECK(stages_of(t, "pp=3", {{"n5", 9}}) == std::vector{0, 0, 0, 0, 0, 1});
  // The loss is all of it: every stage has a node of its own even so.
  const auto late = assign_stages(t, parse_plan("pp=3"), {{node_costs(t, {{t.graph[t.graph[t.loss].producer].name, 9}})}, {}});
  CHECK(stage_of(t, late, "n0") == 0);
  CHECK(stage_of(t, late, t.graph[t.graph[t.loss].producer].name) == 2);
  CHECK(stages_of(t, "pp=1", Costs{}) == std::vector{0, 0, 0, 0, 0, 0});
}

TEST_CASE("quicker stages take more") {
  const auto t = chain({8, 8, 8, 8, 8, 8});
  const Costs equal{{"n0", 1}, {"n1", 1}, {"n2", 1}, {"n3", 1}, {"n4", 1}, {"n5", 1}};
  CHECK(stages_of(t, "pp=2", equal, {2, 1}) == std::vector{0, 0, 0, 0, 1, 1});
  CHECK(stages_of(t, "pp=2", equal, {1, 5}) == std::vector{0, 1, 1, 1, 1, 1});
  CHECK(stages_of(t, "pp=3", equal, {3, 1, 2}) == std::vector{0, 0, 0, 1, 2, 2});
}

TEST_CASE("what crosses a cut counts beside the longest stage") {
  // 4 samples of 8 features in 4 bytes are 128 bytes, of 2 features 32. A byte costs 0.01.
  constexpr double kPerByte = 0.01;
  // 20 in all. Behind n1: stages of 9.5 and 10.5, and 0.32 crosses: 10.82. Behind n2: 10.5 and 9.5, and 1.28 crosses: 11.78.
  const auto narrow = chain({8, 2, 8, 8});
  const Costs costs{{"n0", 5}, {"n1", 4.5}, {"n2", 1}, {"n3", 9.5}};
  CHECK(stages_with_messages(narrow, costs, kPerByte) == std::vector{0, 0, 1, 1});
  CHECK(stages_with_messages(chain({8, 8, 2, 8}), costs, kPerByte) == std::vector{0, 0, 0, 1});
  // What the first of all makes and a later one reads crosses, too: 8 + 1 features behind n1, the sum's 8 behind n2.
  graph::zoo::Layers layers;
  const auto first = layers.linear("n0", layers.input("input", {4, 8}), 8);
  const auto sum = layers.add("n2", first, layers.linear("n1", first, 1));
  const auto skipping = graph::with_initial_values(std::move(layers).finish(layers.linear("n3", sum, 8), "out"));
  CHECK(stages_with_messages(graph::build_training_graph(skipping, {}), costs, kPerByte) == std::vector{0, 0, 0, 1});
  // Behind n1 there are 8 of 20, behind n2 10: 12 + 0.32 against 10 + 1.28; where bytes cost five times as much, 12 + 1.6 against 10 + 6.4.
  const Costs uneven{{"n0", 5}, {"n1", 3}, {"n2", 2}, {"n3", 10}};
  CHECK(stages_with_messages(narrow, uneven, kPerByte) == std::vector{0, 0, 0, 1});
  CHECK(stages_with_messages(narrow, uneven, 5 * kPerByte) == std::vector{0, 0, 1, 1});
}

TEST_CASE("what crosses a cut between devices of two kinds costs the same, whichever stands first") {
  const auto t = chain({8, 8, 8, 8});
  const auto sharding = shard(t, {});
  const StageSpeed quick{FlopsPerSecond(2e12), BytesPerSecond(2e10), Seconds(5e-6)}, slow{FlopsPerSecond(1e12), BytesPerSecond(1e10), {}};
  const auto one = work_of_stages(t, sharding, {1, {quick, slow}}), other = work_of_stages(t, sharding, {1, {slow, quick}});
  CHECK(one.sending_costs == other.sending_costs);
  CHECK(one.node_costs.front() == other.node_costs.back());
}

TEST_CASE("of attention that is one kernel the scores move nothing, of one that is several nodes they do") {
  const auto t =
      graph::build_training_graph(graph::with_initial_values(graph::zoo::build("gpt?layers=1&hidden=64&heads=4&seq=64&vocab=96", 4)), {});
  auto sharding = shard(t, {});
  const auto cost_of_softmax = [&] {
    const auto costs = work_of_stages(t, sharding, {}).node_costs.front();
    for (std::size_t n = 0; n < t.graph.nodes().size(); ++n)
      if (graph::schema(t.graph.nodes()[n]).name == "Softmax") return costs[n];
    return -1.0;
  };
  // 4 samples of 4 heads of 64 x 64 scores in 4 bytes: forward they are read and written, backward two of them read and one written. A byte
  // takes as long as 15 FLOPs, of which a score has few; a launch as 5e7.
  const double scores = 4.0 * 4 * 64 * 64;
  CHECK(cost_of_softmax() == Approx(15.0 * 4 * (2 + 3) * scores + 2 * 5e7));
  fuse_attention(t, sharding);
  CHECK(cost_of_softmax() < 20 * scores);  // what it computes
  split_apart(t.graph, sharding, [](graph::NodeId a, graph::NodeId b) { return a == b; });
  CHECK(cost_of_softmax() == Approx(15.0 * 4 * (2 + 3) * scores + 2 * 5e7));
}

TEST_CASE("gradients and updates are where their forward nodes are") {
  const auto t = chain({8, 8, 8});
  const auto stages = assign_stages(t, parse_plan("pp=2,cuts=n2"), {});
  for (const auto& [name, stage] : std::map<std::string, int>{
           {"n1", 0}, {"n2", 1}, {"n1.grad", 0}, {"n2.grad", 1}, {"n1.weight.update", 0}, {"n2.weight.update", 1}, {"n2.bias.update", 1}}) {
    INFO(name);
    CHECK(stage_of(t, stages, name) == stage);
  }
}

TEST_CASE("without costs stages are balanced by FLOPs and bytes, a hundred of them to one") {
  // [4, 8] by [8, 8] with a bias: 2 x 4 x 8 x 8 + 4 x 8 FLOPs against 100 times (4 x 8 + 8 x 8 + 8 + 4 x 8) x 4 bytes.
  const auto t = chain({8, 8});
  const auto& g = t.graph;
  double cost = 0;
  for (std::size_t n = 0; n < g.nodes().size(); ++n)
    if (g.nodes()[n].name == "n1") cost = roofline_cost(g, static_cast<graph::NodeId>(n));
  CHECK(cost == 100.0 * (32 + 64 + 8 + 32) * 4);
  // A thousand times as wide, and of 4000 samples, a product takes longer than its bytes: 2 x 4000 x 1000 x 1000 FLOPs, and the bias.
  graph::zoo::Layers layers;
  const auto wide = std::move(layers).finish(layers.linear("wide", layers.input("input", {4000, 1000}), 1000), "out");
  const auto trained = graph::build_training_graph(graph::with_initial_values(wide), {});
  CHECK(roofline_cost(trained.graph, static_cast<graph::NodeId>(0)) == 8e9 + 4e6);
}

TEST_CASE("cuts that are named, and stages that there are too many of") {
  const auto t = chain({8, 8, 8, 8});
  CHECK(stages_of(t, "pp=3,cuts=n1|n3", Costs{}) == std::vector{0, 1, 1, 2});
  for (const auto& [plan, problem] : std::map<std::string, std::string>{{"pp=2,cuts=n0", "\"n0\" is not after the cut before it"},
                                                                        {"pp=3,cuts=n3|n1", "\"n1\" is not after the cut before it"},
                                                                        {"pp=2,cuts=n9", "the model has no node \"n9\""}}) {
    INFO(plan);
    CHECK_THROWS_WITH(assign_stages(t, parse_plan(plan), {}), contains(problem));
  }
  CHECK_THROWS_AS(assign_stages(t, parse_plan("pp=50"), {}), Refusal);
  // validate() says of a plan that it has too few.
  CHECK_THROWS_AS(assign_stages(t, parse_plan("pp=3,cuts=n1"), {}), InternalError);
}
