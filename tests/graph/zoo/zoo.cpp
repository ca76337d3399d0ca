#include "graph/zoo/zoo.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "graph/training.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;

namespace {

std::int64_t parameters_of(const Graph& graph) {
  std::int64_t count = 0;
  for (const Tensor& tensor : graph.tensors()) count += tensor.role == Role::Parameter ? element_count(tensor.type.shape) : 0;
  return count;
}

/// FLOPs of the forward nodes of some operators.
double flops_of(const Graph& graph, const std::vector<std::string_view>& ops) {
  double flops = 0;
  for (const Node& node : graph.nodes()) {
    if (std::find(ops.begin(), ops.end(), schema(node).name) == ops.end()) continue;
    const NodeTypes types(graph, node);
    flops += work_of(schema(node), types.view()).flops.value();
  }
  return flops;
}

/// Small enough to build quickly, with the same structure.
std::string small(std::string_view name) {
  const std::string text(name);
  return text == "gpt"      ? "gpt?layers=2&hidden=16&heads=2&seq=8&vocab=11&batch=2"
         : text == "unet2d" ? "unet2d?image=32&channels=4&batch=2"
                            : text + "?image=32&batch=2";
}

}  // namespace

TEST_CASE("parameter counts are those of the published models") {
  // torchvision.models, numbers in the meta data of the pre-trained weights ("num_params")
  CHECK(parameters_of(zoo::build("zoo:resnet18")) == 11'689'512);
  CHECK(parameters_of(zoo::build("zoo:resnet34")) == 21'797'672);
  CHECK(parameters_of(zoo::build("zoo:resnet50")) == 25'557'032);
  CHECK(parameters_of(zoo::build("zoo:resnet101")) == 44'549'160);
  CHECK(parameters_of(zoo::build("zoo:resnet152")) == 60'192'808);
  CHECK(parameters_of(zoo::build("zoo:vgg11")) == 132'863'336);
  CHECK(parameters_of(zoo::build("zoo:vgg13")) == 133'047'848);
  CHECK(parameters_of(zoo::build("zoo:vgg16")) == 138'357'544);
  CHECK(parameters_of(zoo::build("zoo:vgg19")) == 143'667'240);
}

TEST_CASE("GPT-2 small has its published size") {
  // tokens 50257 x 768, positions 1024 x 768; a block: 2 norms of 2 x 768, 768 x 2304 + 2304, 768 x 768 + 768, 768 x 3072 + 3072,
  // 3072 x 768 + 768 = 7,087,872; twelve of them; a last norm of 1536: 124,439,808
  CHECK(parameters_of(zoo::build("zoo:gpt")) == 124'439'808);
  CHECK(parameters_of(zoo::build("zoo:gpt?tied=0")) == 124'439'808 + 50257 * 768);
  // a block of hidden 8, ffn 10: 32 + 8 * 24 + 24 + 8 * 8 + 8 + 8 * 10 + 10 + 10 * 8 + 8 = 498; vocabulary 5 * 8, 4 positions * 8, norm 16
  CHECK(parameters_of(zoo::build("gpt?layers=3&hidden=8&heads=2&ffn=10&seq=4&vocab=5")) == 3 * 498 + 40 + 32 + 16);
}

TEST_CASE("U-Net counts by hand") {
  // a double convolution from i to o channels: 9 i o + 2 o + 9 o o + 2 o; an upward step from 2 c to c: 4 * 2c * c + c and a double
  // convolution from 2 c to c; the head c * classes + classes. Depth 1, 4 channels, 3 in, 2 classes:
  // (108 + 8 + 144 + 8) + (288 + 16 + 576 + 16) + (128 + 4) + (288 + 8 + 144 + 8) + (8 + 2) = 268 + 896 + 132 + 448 + 10
  CHECK(parameters_of(zoo::build("unet2d?depth=1&channels=4&image=16")) == 1754);
  // 64 to 1024 channels, as in the paper's figure 1
  const auto pair = [](std::int64_t i, std::int64_t o) { return 9 * i * o + 9 * o * o + 4 * o; };
  std::int64_t expected = pair(3, 64) + 64 * 2 + 2;
  for (std::int64_t c = 64; c < 1024; c *= 2) expected += pair(c, 2 * c) + 8 * c * c + c + pair(2 * c, c);
  CHECK(parameters_of(zoo::build("unet2d")) == expected);
}

TEST_CASE("FLOPs of the convolutions and the classifier of ResNet-50") {
  // torchvision's table: 4.09 GFLOPS per 224 x 224 image, counting multiply-adds (our FLOPs count each as two)
  const double flops = flops_of(zoo::build("resnet50?batch=1"), {"Conv", "Gemm"});
  CHECK(flops / 2e9 == Approx(4.09).margin(0.005));
  // the first convolution by hand: 112 * 112 * 64 results of 3 * 49 multiply-adds
  const Graph graph = zoo::build("resnet50?batch=1");
  const auto first = std::find_if(graph.nodes().begin(), graph.nodes().end(), [](const Node& n) { return n.name == "conv1"; });
  REQUIRE(first != graph.nodes().end());
  const NodeTypes types(graph, *first);
  CHECK(work_of(schema(*first), types.view()).flops.value() == 2.0 * 112 * 112 * 64 * 3 * 49);
}

TEST_CASE("FLOPs of GPT-2 follow six parameters a token") {
  // matrix products forward: 2 FLOPs per weight and token (embedding as the result's weight included, positions and norms not),
  // and 4 seq hidden per token and layer for scores and mixing
  const double tokens = 1024, weights = 12.0 * (768 * 2304 + 768 * 768 + 2 * 768 * 3072) + 50257.0 * 768;
  CHECK(flops_of(zoo::build("gpt?batch=1"), {"MatMul"}) == Approx(tokens * (2 * weights + 12.0 * 4 * 1024 * 768)).epsilon(1e-12));
}

TEST_CASE("every model trains: all parameters have gradients and nothing is in the way") {
  for (const zoo::ZooRow& row : zoo::zoo_table()) {
    INFO(row.name);
    const Graph model = with_initial_values(zoo::build(small(row.name)));
    const TrainingGraph training = build_training_graph(model, {});
    std::size_t parameters = 0, known = 0;
    for (const Tensor& tensor : model.tensors()) {
      parameters += tensor.role == Role::Parameter;
      known += tensor.role == Role::Parameter && tensor.contents.known();
    }
    CHECK(training.parameters.size() == parameters);
    CHECK(known == parameters);
    CHECK(training.untrainable.empty());
    CHECK(training.warnings.empty());
    CHECK(training.batch == 2);
  }
}

TEST_CASE("running statistics are updated in training") {
  const TrainingGraph training = build_training_graph(zoo::build("resnet18?image=32"), {});
  const auto& tensors = training.graph.tensors();
  const auto states = std::count_if(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.role == Role::State; });
  const auto updated = std::count_if(tensors.begin(), tensors.end(), [&](const Tensor& t) {
    return t.stored_in != TensorId::None && training.graph[t.stored_in].role == Role::State;
  });
  CHECK(states == 2 * 20);  // 20 normalizations
  CHECK(updated == states);
}

TEST_CASE("an image of another size reaches the classifier of VGG") {
  for (const std::string image : {"32", "64", "160", "224", "256", "448"}) {
    const Graph graph = zoo::build("vgg11?batch=1&image=" + image);
    CHECK(parameters_of(graph) == 132'863'336);
    CHECK(graph[graph.outputs()[0]].type.shape == Shape{1, 1000});
  }
}

TEST_CASE("references are parsed strictly") {
  CHECK(zoo::parse("zoo:gpt").values.at("layers") == 12);
  CHECK(zoo::parse("gpt?layers=2&hidden=256").values.at("hidden") == 256);
  CHECK_THROWS_WITH(zoo::parse("zoo:gtp"), contains("gtp") && contains("resnet50") && contains("gpt"));
  CHECK_THROWS_WITH(zoo::parse("zoo:gpt?depth=3"), contains("depth") && contains("layers") && contains("vocab"));
  CHECK_THROWS_WITH(zoo::parse("zoo:gpt?layers=-1"), contains("layers=-1") && contains("1 to"));
  CHECK_THROWS_AS(zoo::parse("zoo:gpt?layers=99999999999999999999"), BadInput);
  CHECK_THROWS_AS(zoo::parse("zoo:gpt?layers=two"), BadInput);
  CHECK_THROWS_AS(zoo::parse("zoo:gpt?layers="), BadInput);
  CHECK_THROWS_AS(zoo::parse("zoo:gpt?layers"), BadInput);
  CHECK_THROWS_AS(zoo::parse("zoo:"), BadInput);
  CHECK_THROWS_WITH(zoo::build("gpt?hidden=100&heads=12"), contains("hidden=100") && contains("heads=12"));
  CHECK_THROWS_WITH(zoo::build("unet2d?image=100"), contains("multiple of 16"));
  CHECK_THROWS_AS(zoo::build("resnet18", 0), BadInput);
  // every factor is in its range, their product is not a size
  CHECK_THROWS_AS(zoo::build("gpt?batch=1000000000&seq=1000000&vocab=10000000"), BadInput);
}

TEST_CASE("the batch asked for stands over the reference's") {
  const Graph graph = zoo::build("zoo:resnet18?batch=3&image=32", 5);
  CHECK(graph[graph.inputs()[0]].type.shape == Shape{5, 3, 32, 32});
}

TEST_CASE("every row's defaults lie in its ranges") {
  for (const zoo::ZooRow& row : zoo::zoo_table()) {
    for (const zoo::ZooParameter& p : row.parameters) {
      INFO(row.name << " " << p.name);
      CHECK(p.otherwise >= p.least);
      CHECK(p.otherwise <= p.most);
      CHECK_FALSE(p.description.empty());
    }
  }
}
