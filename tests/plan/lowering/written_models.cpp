#include <cmath>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "graph/zoo/layers.hpp"
#include "graph/zoo/zoo.hpp"
#include "tests/plan/lowering/written_program.hpp"

namespace rehearsal::plan::test {
namespace {

using graph::TensorId;
using graph::zoo::Layers;
using graph::zoo::Square;

graph::Graph layers_of_one_kind() {
  Layers layers;
  auto x = layers.input("input", {6, 6});
  for (int n = 0; n < 2; ++n) x = layers.relu("relu" + std::to_string(n), layers.linear("fc" + std::to_string(n), x, 8));
  return std::move(layers).finish(layers.linear("last", x, 5), "output");
}

graph::Graph convolutions() {
  Layers layers;
  auto x = layers.relu("relu1", layers.batch_norm("bn", layers.conv("conv1", layers.image(6, 3, 9), 4, Square{}, false)));
  x = layers.max_pool("pool", x, {3, 2, 1});
  x = layers.relu("relu2", layers.conv("conv2", x, 6, Square{}, true));
  return std::move(layers).finish(layers.linear("fc", layers.global_average("average", x), 5), "output");
}

/// Windows that do not tile the blocks of a split image, pixels between pixels, borders that mirror.
graph::Graph resizing() {
  Layers layers;
  auto x = layers.conv("conv", layers.image(2, 2, 13), 3, Square{}, true);
  x = layers.max_pool("pool", x, {3, 2, 1});
  const std::vector<std::int64_t> three{3, 3}, one{1, 1}, all_round{1, 1, 1, 1};
  x = layers.node("mean", "AveragePool", {x}, {{"kernel_shape", three}, {"strides", one}, {"pads", all_round}});
  x = layers.node("grow", "Resize", {x}, {{"sizes", std::vector<std::int64_t>{17, 17}}, {"mode", std::string("linear")}});
  x = layers.node("mirror", "Pad", {x}, {{"pads", std::vector<std::int64_t>{1, 0, 2, 0}}, {"mode", std::string("reflect")}});
  return std::move(layers).finish(layers.linear("fc", layers.global_average("average", x), 4), "output");
}

/// Averages of windows, with and without what pads them, and pixels between pixels that are learned.
graph::Graph averages() {
  Layers layers;
  auto x = layers.average_pool("padded", layers.conv("conv", layers.image(2, 2, 8), 2, {1, 1, 0}, false), {3, 1, 1});
  x = layers.average_pool("tiled", x, {2, 2, 0}, false);
  x = layers.conv_transpose("grown", x, 2, {3, 2, 1});
  x = layers.average_pool("edges", x, {3, 2, 1}, false);
  return std::move(layers).finish(layers.linear("fc", layers.global_average("average", x), 3), "output");
}

/// Rows see the keys up to their own.
graph::Graph attention() {
  Layers layers;
  const auto x = layers.input("input", {2, 4, 6});
  const auto turned = layers.transpose("turned", layers.dense("k", x, 6), {0, 2, 1});
  auto scores = layers.matmul("scores", layers.dense("q", x, 6), turned);
  graph::Value hidden{{DType::F32, {4, 4}}, {}, {}};
  for (int n = 0; n < 16; ++n) hidden.reals.push_back(n % 4 <= n / 4 ? 0 : -HUGE_VAL);
  scores = layers.add("seen", layers.multiply("scaled", scores, layers.constant("scale", 0.5)),
                      layers.builder().add_constant("mask", std::move(hidden)));
  const auto weights = layers.node("weights", "Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  return std::move(layers).finish(layers.dense("last", layers.matmul("mix", weights, layers.dense("v", x, 6)), 3), "output");
}

/// The first product's matrix is the last one's, too.
graph::Graph tied() {
  Layers layers;
  const auto matrix = layers.parameter("tied", {8, 8});
  auto x = layers.matmul("first", layers.input("input", {6, 8}), matrix);
  for (const auto* name : {"a", "b"}) x = layers.relu(std::string(name) + ".relu", layers.linear(name, x, 8));
  return std::move(layers).finish(layers.matmul("last", x, matrix), "output");
}

/// Products with the matrix as it is stored turned.
graph::Graph turned() {
  Layers layers;
  auto x = layers.input("input", {6, 4});
  for (const auto* name : {"a", "b", "c"}) {
    const std::string n = name;
    x = layers.relu(n + ".relu", layers.matmul(n, x, layers.transpose(n + ".turned", layers.parameter(n + ".weight", {4, 4}), {1, 0})));
  }
  return std::move(layers).finish(layers.linear("last", x, 3), "output");
}

/// What the first product makes is read by all parts of a pipeline.
graph::Graph residual() {
  Layers layers;
  const auto first = layers.linear("first", layers.input("input", {6, 4}), 4);
  auto x = first;
  for (const auto* name : {"a", "b", "c"})
    x = layers.add(std::string(name) + ".sum", x, layers.relu(std::string(name) + ".relu", layers.linear(name, x, 4)));
  return std::move(layers).finish(layers.linear("last", layers.add("both", x, first), 3), "output");
}

/// Of two parts of a product nobody wants the first.
graph::Graph unwanted() {
  Layers layers;
  const auto x = layers.linear("fc", layers.input("input", {4, 6}), 6);
  graph::GraphBuilder::NodeOptions options;
  options.name = "split";
  options.output_names = {"", "kept"};
  const auto parts = layers.builder().add("Split", {x}, {{"axis", std::int64_t{1}}, {"split", std::vector<std::int64_t>{2, 4}}}, options);
  return std::move(layers).finish(layers.linear("last", layers.relu("relu", parts[1]), 3), "output");
}

/// Statistics of the data itself.
graph::Graph normalized() {
  Layers layers;
  const auto x = layers.relu("relu", layers.linear("fc", layers.batch_norm("bn", layers.input("input", {6, 4})), 4));
  return std::move(layers).finish(layers.linear("last", x, 3), "output");
}

/// Every sample is compared with the mean of all.
graph::Graph compared() {
  Layers layers;
  const auto x = layers.linear("fc", layers.input("input", {6, 4}), 4);
  const auto mean =
      layers.node("mean", "ReduceSum", {x}, {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", std::int64_t{1}}, {"scale", 1.0 / 6}});
  return std::move(layers).finish(layers.linear("last", layers.node("apart", "Sub", {x, mean}), 3), "output");
}

struct WrittenModel {
  std::string_view name;
  graph::Graph (*build)();
};
constexpr WrittenModel kWrittenModels[] = {
    {"layers", layers_of_one_kind},
    {"convolutions", convolutions},
    {"resizing", resizing},
    {"averages", averages},
    {"attention", attention},
    {"tied", tied},
    {"residual", residual},
    {"turned", turned},
    {"unwanted", unwanted},
    {"normalized", normalized},
    {"compared", compared},
    {"masked", [] { return graph::zoo::build("bert?layers=1&hidden=8&heads=2&seq=6&vocab=10&positions=8&predictions=2", 4); }},
    {"experts", [] { return graph::zoo::build("moe?layers=1&hidden=8&heads=2&kv_heads=1&ffn=6&seq=4&vocab=10&experts=2&top_k=1", 4); }},
    {"many-heads", [] { return graph::zoo::build("gpt?layers=1&hidden=8&heads=4&seq=4&vocab=10", 4); }},
    {"gpt", [] { return graph::zoo::build("gpt?layers=1&hidden=8&heads=2&seq=4&vocab=10", 4); }},
};

bool says(const std::string& how, std::string_view word) {
  return (" " + how + " ").find(" " + std::string(word) + " ") != std::string::npos;
}

}  // namespace

graph::TrainingGraph written_training(const std::string& model, const std::string& plan, const std::string& how) {
  graph::TrainingOptions options;
  options.optimizer = {"sgd", {}};
  if (!says(how, "stateless")) options.optimizer.values["momentum"] = 0.9;
  for (const auto* optimizer : {"adam", "shampoo", "kfac"})
    if (says(how, optimizer)) options.optimizer = {optimizer, {}};
  if (plan.find("zero=") != std::string::npos || says(how, "clipped")) options.clip_norm = 1;
  if (says(how, "decays")) options.optimizer.values["weight_decay"] = 0.1;
  options.noise_scale = says(how, "noise");
  if (model == "attention") options.loss = "mse";
  for (const auto& row : kWrittenModels) {
    if (row.name != model) continue;
    auto training = graph::build_training_graph(graph::with_initial_values(row.build()), options);
    if (says(how, "half")) training.graph = graph::with_float_type(training.graph, DType::BF16);
    return training;
  }
  throw BadInput("no model '" + model + "' is written out");
}

KernelOffer ChoosyBackend::offer(const LocalNode& node) const {
  KernelOffer offer{"choosy", {}, {}, Bytes(0), {}, {}};
  const auto family = node.schema.family;
  const bool convolves = family == graph::CostFamily::Convolution;
  const auto format_of = [&](const std::optional<graph::TensorType>& type) {
    return convolves && type && type->shape.size() == 4 ? Format::ChannelsLast : Format::Plain;
  };
  for (const auto& type : node.inputs) offer.input_formats.push_back(format_of(type));
  for (const auto& type : node.outputs) offer.output_formats.push_back(format_of(type));
  if (node.schema.name == "Relu" || node.schema.name == "ReluGrad") {  // as it comes
    offer.input_formats.assign(node.inputs.size(), node.input_formats.front());
    offer.output_formats = {node.input_formats.front()};
  }
  if (node.schema.name == "Conv") offer.input_formats[1] = Format::Packed;
  if (convolves || family == graph::CostFamily::MatMul) offer.workspace = Bytes(100);
  return offer;
}

}  // namespace rehearsal::plan::test
