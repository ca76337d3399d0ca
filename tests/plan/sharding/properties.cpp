// What must hold for every graph and mesh: shares cover each tensor exactly once, and every node's local shapes fit its operator.

#include <random>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "plan/sharding/sharding.hpp"
#include "tests/catch.hpp"
#include "tests/graph/dims/models.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;
using namespace rehearsal::plan;
using rehearsal::graph::test::Net;

namespace {

std::vector<Coordinates> all_coordinates(const std::vector<MeshAxis>& axes) {
  std::vector<Coordinates> all = {{}};
  for (const MeshAxis& a : axes) {
    std::vector<Coordinates> longer;
    for (const Coordinates& c : all) {
      for (std::int64_t r = 0; r < a.size; ++r) {
        longer.push_back(c);
        longer.back().push_back(r);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::int64_t length(const IndexSet& set) {
  std::int64_t n = 0;
  for (const Range& r : set) n += r.count();
  return n;
}

/// Every index of every dimension is owned by equally many coordinates, and a region's shape is the local shape.
void check_cover(const Sharding& s, const TensorDims& dims, const Layout& layout, const Shape& global) {
  const auto all = all_coordinates(s.axes);
  for (std::size_t d = 0; d < global.size(); ++d) {
    std::vector<std::int64_t> owners(static_cast<std::size_t>(global[d]));
    for (const Coordinates& at : all) {
      const IndexSet set = s.region(dims, layout, at)[d];
      REQUIRE(length(set) == s.shape(dims, layout, at)[d]);
      for (const Range& r : set) {
        REQUIRE((0 <= r.begin && r.begin < r.end && r.end <= global[d]));
        for (std::int64_t i = r.begin; i < r.end; ++i) ++owners[static_cast<std::size_t>(i)];
      }
    }
    auto copies = static_cast<std::int64_t>(all.size());
    for (std::size_t a = 0; a < layout.size(); ++a)
      copies /= layout[a].split() && layout[a].dim == static_cast<int>(d) ? s.axes[a].size : 1;
    for (const std::int64_t n : owners) REQUIRE(n == copies);
  }
}

/// Types of a node's operands at one coordinate.
std::vector<std::optional<TensorType>> local_operands(const Sharding& s, const Graph& g, NodeId id, const Coordinates& at) {
  std::vector<std::optional<TensorType>> types;
  for (std::size_t i = 0; i < g[id].inputs.size(); ++i) {
    const TensorId t = g[id].inputs[i];
    types.push_back(t == TensorId::None ? std::nullopt : std::optional(TensorType{g[t].type.dtype, s.operand_shape(id, i, at)}));
  }
  return types;
}

/// The operator's own shape rule, given local operands, must give the local results. Attributes with sizes are global: those rows are left
/// to the element count.
void check_local_node(const Sharding& s, const Graph& g, NodeId id, const Coordinates& at) {
  const Node& node = g[id];
  INFO("node " << node.name);
  const auto operands = local_operands(s, g, id, at);
  if (schema(node).dims == DimsRule::View) {
    REQUIRE(element_count(operands[0]->shape) == element_count(s.result_shape(node.outputs[0], at)));
    return;
  }
  if (node.attributes.has("shape") || node.attributes.has("split") || node.attributes.has("starts")) return;
  const auto results = schema(node).infer({operands, {}, node.attributes});
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    if (node.outputs[o] != TensorId::None) REQUIRE(results[o].shape == s.result_shape(node.outputs[o], at));
  }
}

void check_all(const TrainingGraph& t, const std::vector<MeshAxis>& axes) {
  const Sharding s = shard(t, axes);
  const Graph& g = t.graph;
  for (std::size_t i = 0; i < g.tensors().size(); ++i) {
    INFO("tensor " << g.tensors()[i].name);
    const auto id = static_cast<TensorId>(i);
    check_cover(s, s.dims->of(id), s.layout(id), g[id].type.shape);
  }
  for (const Coordinates& at : all_coordinates(axes)) {
    for (std::size_t n = 0; n < g.nodes().size(); ++n) check_local_node(s, g, static_cast<NodeId>(n), at);
  }
  for (const Conversion& c : s.conversions) {
    Layout now = c.from;
    for (const ConversionStep& step : c.steps) {
      REQUIRE(now[step.axis] == step.from);
      now[step.axis] = step.to;
    }
    REQUIRE(now == c.to);
  }
}

}  // namespace

TEST_CASE("small networks: shares cover, local shapes fit, conversions arrive") {
  for (std::int64_t ranks = 1; ranks <= 5; ++ranks) {
    const std::vector<MeshAxis> dp = {{"dp", ranks, {"batch"}, false}};
    check_all(graph::test::mlp(7), dp);
    check_all(graph::test::cnn(5), dp);
    check_all(graph::test::gpt({.batch = 5}), dp);
  }
  const std::vector<MeshAxis> nested = {{"dp", 2, {"batch"}, false}, {"time", 3, {"batch"}, true}};
  check_all(graph::test::mlp(11), nested);
  check_all(graph::test::gpt({.batch = 7}), nested);
}

TEST_CASE("random networks: shares cover, local shapes fit, conversions arrive") {
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    const std::int64_t batch = 5 + static_cast<std::int64_t>(random() % 8);
    const TrainingGraph t = graph::test::random_network(random, batch);
    INFO("network " << i << ", batch " << batch);
    check_all(t, {{"dp", 1 + static_cast<std::int64_t>(random() % 5), {"batch"}, false}});
    check_all(t, {{"dp", 2, {"batch"}, false}, {"time", 2, {"batch"}, true}});
  }
}

TEST_CASE("random networks: any single dimension can be split, as far as operators allow") {
  std::mt19937 random(11);
  int split = 0;
  for (int i = 0; i < 25; ++i) {
    const TrainingGraph t = graph::test::random_network(random, 6);
    const LogicalDims dims(t.graph);
    for (const DimReport& d : report_dims(t.graph, dims)) {
      INFO("network " << i << ", dimension " << d.name);
      const std::vector<MeshAxis> axes = {{"dp", 2, {"batch"}, false}, {"tp", 2, {d.name}, false}};
      try {
        check_all(t, axes);
        ++split;
      } catch (const Refusal&) {
        continue;  // nothing left to split beside the batch
      }
    }
  }
  CHECK(split > 50);
}
