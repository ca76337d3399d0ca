// Which ranks do the same: their blocks are of one size, windows have the same borders, and nobody has other samples or another place in a
// ring.
#include "plan/sharding/classes.hpp"

#include <set>

#include "plan/sharding/passes.hpp"
#include "plan/sharding/rule_book.hpp"
#include "tests/catch.hpp"
#include "tests/graph/dims/models.hpp"
#include "tests/plan/sharding/attention_model.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;
using namespace rehearsal::plan;
using rehearsal::plan::test::AttentionModel;
using rehearsal::plan::test::sharded;

namespace {

std::vector<Coordinates> coordinates_of(const Sharding& s) {
  std::vector<Coordinates> all{{}};
  for (const MeshAxis& axis : s.axes) {
    std::vector<Coordinates> longer;
    for (const Coordinates& outer : all)
      for (std::int64_t r = 0; r < axis.size; ++r) longer.push_back(outer), longer.back().push_back(r);
    all = std::move(longer);
  }
  return all;
}

std::size_t classes_of(const Sharding& s) {
  const BlockClasses classes(s);
  std::set<std::vector<std::int64_t>> different;
  for (const Coordinates& at : coordinates_of(s)) different.insert(classes.of(at));
  return different.size();
}

/// Shapes of all operands and results, and attributes of blocks.
std::string work_at(const TrainingGraph& t, const Sharding& s, const Coordinates& at) {
  std::string text;
  for (std::size_t n = 0; n < t.graph.nodes().size(); ++n) {
    const auto id = static_cast<NodeId>(n);
    for (std::size_t i = 0; i < t.graph[id].inputs.size(); ++i)
      if (t.graph[id].inputs[i] != TensorId::None) text += to_text(s.operand_shape(id, i, at));
    for (const TensorId o : t.graph[id].outputs)
      if (o != TensorId::None) text += to_text(s.result_shape(o, at));
    if (const auto attributes = s.attributes_on(id, at)) text += attributes->to_text();
  }
  return text;
}

/// As many as there are kinds of work.
void check_classes(const TrainingGraph& t, const Sharding& s, std::size_t expected) {
  const BlockClasses classes(s);
  std::map<std::vector<std::int64_t>, std::string> work;
  for (const Coordinates& at : coordinates_of(s))
    CHECK(work.try_emplace(classes.of(at), work_at(t, s, at)).first->second == work_at(t, s, at));
  CHECK(work.size() == expected);
}

}  // namespace

TEST_CASE("ranks with blocks of one size are of one class") {
  const auto even = graph::test::mlp(6), uneven = graph::test::mlp(7);
  const auto over = [](std::int64_t ranks) { return std::vector<MeshAxis>{{"dp", ranks, {"batch"}, false}}; };
  check_classes(even, shard(even, over(3)), 1);
  check_classes(uneven, shard(uneven, over(3)), 2);  // 2, 2 and 3 samples
  // 7 samples on 2 ranks of 3 and 4; inside, 12 features on 5 ranks of 2, 2, 3, 2, 3.
  const std::vector<MeshAxis> both{{"dp", 2, {"batch"}, false}, {"tp", 5, {"fc1.weight.1"}, false}};
  check_classes(uneven, shard(uneven, both), 4);
  // 3 and 4 samples, each in 2: 1 and 2 of the first, twice 2 of the second, gathered with others of one size.
  const std::vector<MeshAxis> nested{{"dp", 2, {"batch"}, false}, {"inner", 2, {"batch"}, false}};
  check_classes(uneven, shard(uneven, nested), 3);
  // Micro-batches are no classes: every rank goes through all of them.
  const std::vector<MeshAxis> in_time{{"dp", 2, {"batch"}, false}, {"time", 3, {"batch"}, true}};
  CHECK(classes_of(shard(uneven, in_time)) == 2);
}

TEST_CASE("ranks with samples of their own are of the class of their number") {
  const auto t = graph::test::mlp(7);
  MeshAxis dp{"dp", 3, {"batch"}, false};
  dp.samples = {2, 3, 2};
  check_classes(t, shard(t, {dp}), 2);
}

TEST_CASE("under windows places count, in rings every rank does") {
  const auto images = graph::test::cnn(2, false);
  const auto spatial = sharded(images, "spatial=4x1");  // 8 rows: the first, the last, and two with neighbours on both sides
  CHECK(classes_of(spatial) == 4);
  for (const std::int64_t rows : {6, 7}) {
    AttentionModel m(rows);
    const TensorId result = m.mixed(m.softmax(m.scores()));
    const auto t = std::move(m).trained(result);
    CHECK(classes_of(sharded(t, "cp=3,attention=ring")) == 3);
    CHECK(classes_of(sharded(t, "cp=3")) == (rows == 6 ? 1 : 2));
  }
}

TEST_CASE("what is made of weights alone is a weight, of constants alone none, and with samples neither") {
  graph::test::Net n;
  const TensorId w = n.parameter("w", {4, 4}), c = n.constant("c", {4, 4}), x = n.input("x", {2, 4});
  const TensorId turned = n.transpose(w, {1, 0}), both = n.op("Add", {turned, c}), fixed = n.transpose(c, {1, 0});
  const TensorId y = n.op("MatMul", {n.op("MatMul", {x, both}), fixed});
  const Graph g = n.model(n.op("Relu", {y}));
  const auto weights = tensors_of_weights(g);
  for (const TensorId t : {w, turned, both}) CHECK(weights[index(t)]);
  for (const TensorId t : {c, x, fixed, y}) CHECK_FALSE(weights[index(t)]);
}
