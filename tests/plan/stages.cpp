// Where pipelines are cut, by hand: by cost, by the speeds of stages, and where few bytes cross.
#include "plan/schedules/stages.hpp"

#include <map>

#include "base/error.hpp"
#include "graph/zoo/layers.hpp"
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

/// The stage of every forward node of the chain that is named n0, n1, ...; costs of others are 0.
std::vector<int> stages_of(const graph::TrainingGraph& t, const char* plan, const Costs& costs, const std::vector<double>& speeds = {}) {
  const auto stages = assign_stages(t, parse_plan(plan),
                                    {[&](graph::NodeId n) {
                                       const auto at = costs.find(t.graph[n].name);
                                       return at == costs.end() ? 0.0 : at->second;
                                     },
                                     speeds});
  std::vector<int> found;
  for (std::size_t n = 0; n < t.graph.nodes().size(); ++n)
    if (t.graph.nodes()[n].name.size() == 2 && t.graph.nodes()[n].phase == graph::Phase::Forward) found.push_back(stages.of_node[n]);
  return found;
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
  // All of it stands last: one cut is before it, the other behind, where the loss is.
  CHECK(stages_of(t, "pp=3", {{"n5", 9}}) == std::vector{0, 1, 1, 1, 1, 1});
  // The loss is all of it: every stage has a node of its own even so.
  const auto late = assign_stages(t, parse_plan("pp=3"), {[&](graph::NodeId n) { return n == t.graph[t.loss].producer ? 9.0 : 0.0; }, {}});
  CHECK(stage_of(t, late, "n0") == 0);
  CHECK(stage_of(t, late, t.graph[t.graph[t.loss].producer].name) == 2);
  CHECK(stages_of(t, "pp=1", {}) == std::vector{0, 0, 0, 0, 0, 0});
}

TEST_CASE("quicker stages take more") {
  const auto t = chain({8, 8, 8, 8, 8, 8});
  const Costs equal{{"n0", 1}, {"n1", 1}, {"n2", 1}, {"n3", 1}, {"n4", 1}, {"n5", 1}};
  CHECK(stages_of(t, "pp=2", equal, {2, 1}) == std::vector{0, 0, 0, 0, 1, 1});
  CHECK(stages_of(t, "pp=2", equal, {1, 5}) == std::vector{0, 1, 1, 1, 1, 1});
  CHECK(stages_of(t, "pp=3", equal, {3, 1, 2}) == std::vector{0, 0, 0, 1, 2, 2});
}

TEST_CASE("within a tenth of a stage's part a cut goes where fewest bytes cross") {
  // 20 in all: a cut behind n1 or n2 leaves 9.5 and 10.5 or 10.5 and 9.5, half a unit off the middle. n1 has 2 features, n2 has 8.
  const auto narrow = chain({8, 2, 8, 8});
  const Costs costs{{"n0", 5}, {"n1", 4.5}, {"n2", 1}, {"n3", 9.5}};
  CHECK(stages_of(narrow, "pp=2", costs) == std::vector{0, 0, 1, 1});
  const auto late = chain({8, 8, 2, 8});
  CHECK(stages_of(late, "pp=2", costs) == std::vector{0, 0, 0, 1});
  // What the first of all makes and a later one reads crosses, too: 8 + 1 features behind n1, the sum's 8 behind n2.
  graph::zoo::Layers layers;
  const auto first = layers.linear("n0", layers.input("input", {4, 8}), 8);
  const auto sum = layers.add("n2", first, layers.linear("n1", first, 1));
  const auto skipping = std::move(layers).finish(layers.linear("n3", sum, 8), "out");
  CHECK(stages_of(graph::build_training_graph(graph::with_initial_values(skipping), {}), "pp=2", costs) == std::vector{0, 0, 0, 1});
  // More than a tenth off, balance goes first: behind n1 there are 8 of 20, behind n2 10.
  const Costs uneven{{"n0", 5}, {"n1", 3}, {"n2", 2}, {"n3", 10}};
  CHECK(stages_of(narrow, "pp=2", uneven) == std::vector{0, 0, 0, 1});
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
  CHECK(stages_of(t, "pp=3,cuts=n1|n3", {}) == std::vector{0, 1, 1, 2});
  for (const auto& [plan, problem] : std::map<std::string, std::string>{{"pp=3,cuts=n1", "1 cuts for pp=3; there must be 2"},
                                                                        {"pp=2,cuts=n0", "\"n0\" is not after the cut before it"},
                                                                        {"pp=3,cuts=n3|n1", "\"n1\" is not after the cut before it"},
                                                                        {"pp=2,cuts=n9", "the model has no node \"n9\""}}) {
    INFO(plan);
    CHECK_THROWS_WITH(assign_stages(t, parse_plan(plan), {}), contains(problem));
  }
  CHECK_THROWS_AS(assign_stages(t, parse_plan("pp=50"), {}), Refusal);
}
