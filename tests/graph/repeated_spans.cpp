// Which runs of nodes are layers that repeat, which are steps of one layer, and which are neither.
#include "graph/repeated_spans.hpp"

#include "graph/builder.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;

namespace {

/// Steps of three nodes each between two other nodes.
class Steps {
 public:
  TensorId weight(const std::string& name) { return builder_.add_stored(name, {DType::F32, {4, 4}}, TensorRole::Parameter, {}); }
  /// x to act(x W + x).
  void step(TensorId weight, const char* act = "Tanh") {
    const auto product = add("MatMul", {x_, weight});
    x_ = add(act, {add("Add", {product, x_})});
  }
  void weightless_step() { x_ = add("Sigmoid", {add("Add", {add("Tanh", {x_}), x_})}); }
  [[nodiscard]] std::vector<Span> spans() && {
    builder_.set_outputs({add("Relu", {x_})});
    return repeated_spans(std::move(builder_).build());
  }

 private:
  TensorId add(const char* op, std::vector<TensorId> inputs) {
    Attributes attributes;
    if (std::string_view(op) == "Softmax") attributes.set("axis", std::int64_t{-1});
    const auto name = std::to_string(nodes_++);
    return builder_.add(op, std::move(inputs), std::move(attributes), {name, Phase::Forward, NodeId::None, {name}}).front();
  }

  GraphBuilder builder_;
  int nodes_ = 0;
  TensorId x_ = add("Relu", {builder_.add_input("x", {DType::F32, {2, 4}})});
};

void check(const Span& span, std::size_t first, int repeats, bool recurrence) {
  CHECK(span.first == first);
  CHECK(span.length == 3);
  CHECK(span.repeats == repeats);
  CHECK(span.recurrence == recurrence);
}

}  // namespace

TEST_CASE("layers with weights of their own are no recurrence") {
  Steps layers;
  for (const auto* name : {"a", "b", "c", "d"}) layers.step(layers.weight(name));
  const auto spans = std::move(layers).spans();
  REQUIRE(spans.size() == 3);
  check(spans[1], 1, 4, false);
}

TEST_CASE("steps that read one weight are a recurrence, which ends where steps with another one begin") {
  Steps layer;
  const auto there = layer.weight("there"), back = layer.weight("back");
  for (int step = 0; step < 5; ++step) layer.step(there);
  for (int step = 0; step < 4; ++step) layer.step(back);
  const auto spans = std::move(layer).spans();
  REQUIRE(spans.size() == 4);
  check(spans[1], 1, 5, true);
  check(spans[2], 16, 4, true);
}

TEST_CASE("blocks that attend are layers also where they share their weights") {
  Steps layers;
  const auto shared = layers.weight("shared");
  for (int step = 0; step < 4; ++step) layers.step(shared, "Softmax");
  const auto spans = std::move(layers).spans();
  REQUIRE(spans.size() == 3);
  check(spans[1], 1, 4, false);
}

TEST_CASE("what repeats without weights is no layer") {
  Steps steps;
  for (int step = 0; step < 4; ++step) steps.weightless_step();
  const auto spans = std::move(steps).spans();
  REQUIRE(spans.size() == 1);
  CHECK(spans.front().repeats == 1);
  CHECK(spans.front().length == 14);
}
