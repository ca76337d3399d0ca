// Every plan computes what one rank computes: all ranks of a mesh are played in this process with the reference kernels in f64, conversions
// are assembled and cut again, and every tensor is compared with the unsplit run.

#include "base/error.hpp"
#include "tests/graph/dims/models.hpp"
#include "tests/plan/sharding/mesh.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;
using namespace rehearsal::plan;
using rehearsal::plan::test::check_equal;

namespace {

MeshAxis by_batch(std::int64_t n) { return {"dp", n, {"batch"}, false}; }

/// Heads, feed-forward and vocabulary of the GPT of models.hpp, by the names of this import.
MeshAxis megatron(const TrainingGraph& t, std::int64_t n, bool vocabulary) {
  const LogicalDims dims(t.graph);
  MeshAxis tp{"tp", n, {}, false};
  for (const Node& node : t.graph.nodes()) {
    if (schema(node).name == "Softmax") tp.dims.push_back(dims.name(dims.of(node.outputs[0])[1][0]));
  }
  for (const Tensor& tensor : t.graph.tensors()) {
    if (tensor.role == TensorRole::Parameter && tensor.name.find("up.weight") != std::string::npos) tp.dims.push_back(tensor.name + ".1");
  }
  if (vocabulary) tp.dims.push_back("wte.0");
  return tp;
}

}  // namespace

TEST_CASE("data parallel equals one rank, even and uneven") {
  for (const std::int64_t ranks : {1, 2, 3, 5}) {
    check_equal(graph::test::mlp(7), {by_batch(ranks)}, 3);
    check_equal(graph::test::cnn(5), {by_batch(ranks)}, 5);
    check_equal(graph::test::gpt({.batch = 5}), {by_batch(ranks)}, 21);
  }
}

TEST_CASE("replicas with samples of their own equal one rank") {
  for (const std::vector<std::int64_t>& samples : {std::vector<std::int64_t>{1, 4, 2}, {5, 1, 1}, {2, 2, 3}}) {
    MeshAxis dp = by_batch(3);
    dp.samples = samples;
    check_equal(graph::test::mlp(7), {dp}, 3);
    check_equal(graph::test::cnn(7), {dp}, 5);
    check_equal(graph::test::mlp(7, "", "adam"), {dp, {"tp", 2, {"fc1.weight.1"}, false}}, 3);
  }
}

TEST_CASE("micro-batches equal the whole batch") {
  const MeshAxis time{"time", 3, {"batch"}, true};
  check_equal(graph::test::mlp(7), {by_batch(2), time}, 3);
  check_equal(graph::test::gpt({.batch = 7}), {by_batch(2), time}, 21);
  check_equal(graph::test::cnn(7, false), {by_batch(2), time}, 5);
}

TEST_CASE("tensor parallel attention equals one rank, even and uneven") {
  const TrainingGraph t = graph::test::gpt({.layers = 2});
  check_equal(t, {megatron(t, 2, false)}, 21);
  check_equal(t, {megatron(t, 3, false)}, 21);  // 4 heads on 3 ranks
  check_equal(t, {by_batch(2), megatron(t, 2, true)}, 21);
  check_equal(t, {megatron(t, 4, true)}, 21);
}

TEST_CASE("U-Net with dropout, for losses with and without a sum over samples") {
  for (const std::string loss : {"dice", "bce", "mse"}) {
    INFO(loss);
    check_equal(graph::test::unet(5, loss), {by_batch(2)}, 2);
    check_equal(graph::test::unet(5, loss, false), {by_batch(2), {"time", 2, {"batch"}, true}}, 2);
  }
  check_equal(graph::test::unet(4), {by_batch(2), {"tp", 2, {"down.weight.0", "middle.weight.0"}, false}}, 2);
}

TEST_CASE("optimizers with state and with norms of whole tensors") {
  for (const std::string optimizer :
       {"adam", "adamw", "nadam", "lamb", "lars", "rmsprop", "adagrad", "novograd", "adadelta", "adamax", "radam", "rprop", "asgd"}) {
    INFO(optimizer);
    const TrainingGraph t = graph::test::mlp(6, "", optimizer);
    check_equal(t, {by_batch(2)}, 3);
    check_equal(t, {by_batch(2), {"tp", 3, {"fc1.weight.1"}, false}}, 3);  // norms of split parameters are sums over their ranks
    check_equal(t, {by_batch(2), {"time", 3, {"batch"}, true}}, 3);
  }
}

TEST_CASE("random networks: batch and any other dimension, even and uneven, equal one rank") {
  std::mt19937 random(5);
  int played = 0;
  for (int i = 0; i < 12; ++i) {
    const TrainingGraph t = graph::test::random_network(random, 6);
    const LogicalDims dims(t.graph);
    for (const DimReport& d : report_dims(t.graph, dims)) {
      INFO("network " << i << ", dimension " << d.name);
      try {
        check_equal(t, {by_batch(2), {"tp", 2 + i % 2, {d.name}, false}}, 5);
        ++played;
      } catch (const Refusal&) {
        continue;  // no operator can be split there by so many
      }
    }
  }
  CHECK(played > 30);
}

TEST_CASE("pieces of dimensions that have several factors, split along any of them") {
  // 3 groups of 4 features side by side, as of a fused projection; of all 12 the first 8, or those from the third on, or every other one.
  for (const auto& [starts, ends, steps] :
       std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>{{0, 8, 1}, {2, 12, 1}, {0, 12, 2}}) {
    graph::test::Net n;
    const TensorId x = n.op("MatMul", {n.input("x", {4, 6}), n.parameter("w", {6, 12})});
    const TensorId groups = n.op("Relu", {n.reshape(x, {4, 3, 4})});
    const TensorId flat = n.reshape(n.op("Mul", {groups, n.parameter("scale", {3, 1})}), {4, 12});
    const TensorId piece =
        n.op("Slice", {flat}, {{"starts", Shape{starts}}, {"ends", Shape{ends}}, {"axes", Shape{1}}, {"steps", Shape{steps}}});
    const TrainingGraph t = graph::test::trained(n.model(n.linear(n.op("Relu", {piece}), "fc", 3)));
    const LogicalDims dims(t.graph);
    int played = 0;
    for (const DimReport& d : report_dims(t.graph, dims)) {
      INFO(starts << " to " << ends << " by " << steps << ", dimension " << d.name);
      try {
        check_equal(t, {{"tp", 2, {d.name}, false}}, 3);
        ++played;
      } catch (const Refusal&) {
        continue;
      }
    }
    CHECK(played > 3);
  }
}

TEST_CASE("channels of a convolutional network, with batch normalization") {
  check_equal(graph::test::cnn(4), {by_batch(2), {"tp", 2, {"conv1.weight.0", "conv2.weight.0"}, false}}, 5);
  check_equal(graph::test::cnn(4), {{"tp", 3, {"conv1.weight.0"}, false}}, 5);
}
