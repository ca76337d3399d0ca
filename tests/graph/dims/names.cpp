// What dimensions are called, and what they are used for, where models say it in few places.
#include <map>

#include "graph/dims/dims.hpp"
#include "tests/catch.hpp"
#include "tests/graph/dims/models.hpp"

namespace rehearsal::graph {
namespace {

using test::Net;
using Integers = std::vector<std::int64_t>;

/// Roles of the dimensions of a tensor.
std::vector<std::string_view> roles_in(const Graph& graph, const LogicalDims& dims, const std::string& tensor) {
  const auto roles = roles_of(graph, dims);
  std::vector<std::string_view> found;
  for (const Factors& dimension : dims.of(graph.find(tensor)))
    for (const AtomId a : dimension) found.push_back(roles[static_cast<std::size_t>(dims.atoms().find(a))]);
  return found;
}

using Roles = std::vector<std::string_view>;

/// softmax(x keys') values over what another input brings: queries [batch, 3, 8], keys and values [batch, 5, 8].
Graph across(bool heads) {
  Net n;
  const TensorId x = n.input("x", {2, 3, 8}), other = n.input("other", {2, 5, 8});
  const auto prepared = [&](TensorId t, const char* name) {
    const TensorId y = n.linear(t, name, 8);
    return heads ? n.transpose(n.reshape(y, {2, n.b.type(t).shape[1], 4, 2}), {0, 2, 1, 3}) : y;
  };
  const TensorId q = prepared(x, "q"), k = prepared(other, "k"), v = prepared(other, "v");
  const TensorId scores = n.op("MatMul", {q, k}, {{"trans_b", std::int64_t{1}}});
  const TensorId scaled = n.op("Scale", {scores}, {{"factor", 0.5}});
  const TensorId weights = n.op("Softmax", {scaled});
  n.b.set_outputs({n.op("MatMul", {heads ? n.op("Dropout", {weights}, {{"stream", std::int64_t{1}}}) : weights, v})});
  return std::move(n.b).build();
}

}  // namespace

TEST_CASE("what attends and what is attended to are sequences, also when they are two") {
  for (const bool heads : {false, true}) {
    INFO(heads);
    const Graph g = across(heads);
    const LogicalDims dims(g);
    CHECK(roles_in(g, dims, "x")[1] == "sequence");
    CHECK(roles_in(g, dims, "other")[1] == "sequence");
    // The 8 columns of a projection are the features of one head, or 4 heads of 2.
    CHECK(roles_in(g, dims, "q.weight") == (heads ? Roles{"features", "heads", "head-features"} : Roles{"features", "head-features"}));
    CHECK(roles_in(g, dims, "v.weight") == (heads ? Roles{"features", "heads", "head-features"} : Roles{"features", "head-features"}));
  }
}

TEST_CASE("a product with weights is no score of attention, and what stands before queries are heads") {
  Net weighted;
  const TensorId y = weighted.op("MatMul", {weighted.parameter("w", {4, 8}), weighted.input("x", {2, 8, 5})});
  weighted.b.set_outputs({weighted.op("Softmax", {y})});
  const Graph of_weights = std::move(weighted.b).build();
  const LogicalDims dims_of_weights(of_weights);
  CHECK(roles_in(of_weights, dims_of_weights, "w") == Roles{"features", "features"});
  CHECK(roles_in(of_weights, dims_of_weights, "x")[2].empty());
  // One sequence of 6, no batch before: [6, 8] as 2 heads of 4.
  Net n;
  const TensorId x = n.input("x", {6, 8});
  const auto heads = [&](const char* name) { return n.transpose(n.reshape(n.linear(x, name, 8), {6, 2, 4}), {1, 0, 2}); };
  const TensorId q = heads("q"), k = heads("k");
  n.b.set_outputs({n.op("Softmax", {n.op("MatMul", {q, k}, {{"trans_b", std::int64_t{1}}})})});
  const Graph g = std::move(n.b).build();
  const LogicalDims dims(g);
  CHECK(roles_in(g, dims, "q.weight") == Roles{"features", "heads", "head-features"});
}

TEST_CASE("channels are those of normalized batches, experts those of rows that choose the largest") {
  Net n;
  const TensorId normalized = n.batch_norm(n.input("x", {4, 3, 5}), "norm");
  const TensorId rows = n.input("rows", {2, 3, 4}), image = n.input("image", {2, 3, 4, 5});
  const Attributes one{{"k", std::int64_t{1}}};
  n.b.set_outputs({normalized, n.op("TopK", {rows}, one), n.op("TopK", {image}, one)});
  const Graph g = std::move(n.b).build();
  const LogicalDims dims(g);
  CHECK(roles_in(g, dims, "x") == Roles{"batch", "channels", ""});
  CHECK(roles_in(g, dims, "rows").back() == "experts");
  CHECK(roles_in(g, dims, "image").back().empty());
}

TEST_CASE("a width that is put together from one twice is the hidden one with its parts") {
  Net n;
  const TensorId x = n.input("x", {6, 8});
  n.b.set_outputs({n.layer_norm(n.op("Concat", {x, x}, {{"axis", std::int64_t{1}}}), "ln")});
  const Graph g = std::move(n.b).build();
  const LogicalDims dims(g);
  CHECK(roles_in(g, dims, "x") == Roles{"batch", "hidden"});
}

TEST_CASE("words that come out are called as those that go in, also where these have no table in common") {
  Net n;
  const TensorId table = n.parameter("table", {21, 8});  // the first tensor of all
  const TensorId x = n.op("Gather", {table, n.input("ids", {6}, DType::I64)});
  const TrainingGraph t = test::trained(n.model(n.op("MatMul", {x, n.parameter("head", {8, 21})})));
  const LogicalDims dims(t.graph);
  CHECK(roles_in(t.graph, dims, "table") == Roles{"vocabulary", "hidden"});
  CHECK(roles_in(t.graph, dims, "head") == Roles{"hidden", "vocabulary"});
  CHECK(dims.named("vocabulary").size() == 2);
  CHECK(dims.named("batch") == dims.batch());
}

TEST_CASE("an axis is of one family at every resolution, and no other axis is") {
  Net n;
  const TensorId image = n.input("image", {2, 3, 8, 10});
  n.b.set_outputs({n.conv(image, "half", 4, 2), n.conv(image, "same", 4)});
  const Graph g = std::move(n.b).build();
  const LogicalDims dims(g);
  const auto family = [&](TensorId t, std::size_t d) { return dims.atoms().family(dims.of(t)[d].front()); };
  const TensorId half = g.outputs()[0], same = g.outputs()[1];
  CHECK(family(half, 2) == family(image, 2));
  CHECK(family(half, 3) == family(image, 3));
  CHECK(family(half, 2) != family(half, 3));
  CHECK(dims.of(half)[2] != dims.of(image)[2]);
  CHECK(dims.of(same)[2] == dims.of(image)[2]);  // as many rows are the same rows
}

TEST_CASE("scores are found behind a mask of truths, however large it is") {
  Net n;
  const TensorId x = n.input("x", {2, 3, 8}), mask = n.input("mask", {2, 3, 3}, DType::Bool);
  const TensorId q = n.linear(x, "q", 8), k = n.linear(x, "k", 8);
  const TensorId scores = n.op("MatMul", {q, k}, {{"trans_b", std::int64_t{1}}});
  const TensorId hidden = n.op("Where", {mask, scores, n.b.add_constant("nothing", Value::scalar(-1e30, DType::F32))});
  n.b.set_outputs({n.op("Softmax", {hidden})});
  const Graph g = std::move(n.b).build();
  const LogicalDims dims(g);
  CHECK(roles_in(g, dims, "x")[1] == "sequence");
  CHECK(roles_in(g, dims, "q.weight").back() == "head-features");
}

TEST_CASE("what is computed from constants alone stands in nobody's way") {
  Net n;
  const TensorId angles = n.op("Softmax", {n.op("Relu", {n.constant("angles", {6, 4})})});  // needs the 4 whole
  const TensorId x = n.input("x", {6, 4});
  n.b.set_outputs({n.op("Mul", {x, angles})});
  const Graph g = std::move(n.b).build();
  const LogicalDims dims(g);
  const auto report = report_dims(g, dims);
  REQUIRE(report.size() == 2);
  for (const DimReport& d : report) CHECK(d.blocked_by.empty());
}

TEST_CASE("a feed-forward width is made from the hidden one, or by one matrix for each expert") {
  // Matrices one after the other with nothing that says which width is the hidden one: all are features.
  Net plain;
  const TensorId h = plain.op("Relu", {plain.linear(plain.input("x", {6, 8}), "fc1", 12)});
  const Graph features = plain.model(plain.linear(h, "fc2", 5));
  const LogicalDims of_features(features);
  CHECK(roles_in(features, of_features, "fc1.weight") == Roles{"features", "features"});
  CHECK(roles_in(features, of_features, "fc2.weight") == Roles{"features", "features"});
  // Normalized, 8 is the hidden width, and 12 what stands between.
  Net normalized;
  const TensorId wide = normalized.op("Relu", {normalized.linear(normalized.layer_norm(normalized.input("x", {6, 8}), "ln"), "fc1", 12)});
  const Graph hidden = normalized.model(normalized.linear(wide, "fc2", 5));
  const LogicalDims of_hidden(hidden);
  CHECK(roles_in(hidden, of_hidden, "fc1.weight") == Roles{"hidden", "feed-forward"});
  CHECK(roles_in(hidden, of_hidden, "fc2.weight") == Roles{"feed-forward", "features"});
  // Three experts.
  Net experts;
  const TensorId first = experts.op("MatMul", {experts.input("x", {3, 6, 8}), experts.parameter("up", {3, 8, 12})});
  const Graph stacked = experts.model(experts.op("MatMul", {experts.op("Relu", {first}), experts.parameter("down", {3, 12, 8})}));
  const LogicalDims of_stacked(stacked);
  CHECK(roles_in(stacked, of_stacked, "up").back() == "feed-forward");
  CHECK(roles_in(stacked, of_stacked, "down")[1] == "feed-forward");
}

TEST_CASE("a dimension that a constant alone has is called after the node that reads it") {
  Net n;
  const TensorId table = n.constant("angles", {7, 4});
  n.b.set_outputs({n.op("Gather", {table, n.input("ids", {6, 5}, DType::I64)}), n.op("Gather", {table, n.input("more", {6}, DType::I64)})});
  const Graph g = std::move(n.b).build();
  const LogicalDims dims(g);
  CHECK(dims.name(dims.of_operand(static_cast<NodeId>(0), 0)[0].front()) == "Gather:0.0");
  CHECK(dims.name(dims.of_operand(static_cast<NodeId>(1), 0)[0].front()) == "Gather_1:0.0");
  CHECK(dims.name(dims.of_operand(static_cast<NodeId>(0), 0)[1].front()) == "Gather.2");  // a result has it, too
  CHECK(dims.named("Gather:0.0").size() == 1);
}

TEST_CASE("the batch is the first size that inputs begin with; others of that size have it, too") {
  Net n;
  const TensorId one = n.input("one", {1, 4}), x = n.input("x", {6, 4}), y = n.input("y", {6, 4}), z = n.input("z", {3, 4});
  n.b.set_outputs({n.op("Add", {one, x}), n.op("Relu", {y}), n.op("Relu", {z})});
  const Graph g = std::move(n.b).build();
  const LogicalDims dims(g);
  REQUIRE(dims.batch().size() == 2);
  CHECK(dims.batch()[0] == dims.of(g.find("x"))[0].front());
  CHECK(dims.batch()[1] == dims.of(g.find("y"))[0].front());
  CHECK(dims.name(dims.batch()[1]) == "in2.batch");
}

TEST_CASE("axes of an image are called so where windows run over them") {
  Net n;
  const TensorId image = n.conv(n.input("image", {2, 3, 8, 10}), "conv", 4), table = n.op("Relu", {n.input("table", {2, 3, 8, 10})});
  n.b.set_outputs({image, table});
  const Graph g = std::move(n.b).build();
  const LogicalDims dims(g);
  const auto name = [&](const char* input, std::size_t d) { return dims.name(dims.of(g.find(input))[d].front()); };
  CHECK(name("image", 1) == "in0.1");
  CHECK(name("image", 2) == "in0.height");
  CHECK(name("image", 3) == "in0.width");
  CHECK(name("table", 2) == "in1.2");
  CHECK(name("table", 3) == "in1.3");
}

}  // namespace rehearsal::graph
