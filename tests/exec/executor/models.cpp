#include "tests/exec/executor/models.hpp"

#include <sstream>

#include "base/error.hpp"
#include "graph/adapters.hpp"
#include "graph/narrow_type.hpp"
#include "graph/zoo/layers.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/lowering/lowering.hpp"

namespace rehearsal::exec::sample {
namespace {

using graph::zoo::Layers;

graph::Graph mlp(std::int64_t batch) {
  Layers layers;
  auto x = layers.builder().add_input("input", {DType::F32, {batch, 12}});
  for (int n = 0; n < 4; ++n) {
    const auto name = "layer" + std::to_string(n);
    x = layers.relu(name + ".relu", layers.linear(name, x, 16));
  }
  const auto result = layers.linear("last", x, 5);
  return std::move(layers).finish(result, "output");
}

graph::Graph cnn(std::int64_t batch) {
  Layers layers;
  auto x = layers.image(batch, 3, 8);
  x = layers.relu("stem.relu", layers.batch_norm("stem.bn", layers.conv("stem", x, 8, graph::zoo::Square{}, false)));
  x = layers.max_pool("pool", x, {2, 2, 0});
  auto inner = layers.relu("block.relu", layers.batch_norm("block.bn1", layers.conv("block.conv1", x, 8, graph::zoo::Square{}, false)));
  inner = layers.batch_norm("block.bn2", layers.conv("block.conv2", inner, 8, graph::zoo::Square{}, false));
  x = layers.relu("sum.relu", layers.node("sum", "Add", std::vector{inner, x}));
  const auto result = layers.linear("fc", layers.global_average("average", x), 4);
  return std::move(layers).finish(result, "output");
}

/// Overlapping pools, interpolation and reflected borders, none of which tiles the blocks of a split image.
graph::Graph pools(std::int64_t batch) {
  Layers layers;
  auto x = layers.relu("stem.relu", layers.conv("stem", layers.image(batch, 3, 13), 6, graph::zoo::Square{}, true));
  x = layers.max_pool("pool", x, {3, 2, 1});  // 13 -> 7
  const std::vector<std::int64_t> three{3, 3}, one{1, 1}, all_round{1, 1, 1, 1};
  x = layers.node("mean", "AveragePool", std::vector{x},
                  {{"kernel_shape", three}, {"strides", one}, {"pads", all_round}, {"count_include_pad", std::int64_t{1}}});
  x = layers.node("grow", "Resize", std::vector{x}, {{"sizes", std::vector<std::int64_t>{17, 17}}, {"mode", std::string("linear")}});
  x = layers.node("edge", "Pad", std::vector{x}, {{"pads", std::vector<std::int64_t>{1, 0, 2, 0}}, {"mode", std::string("reflect")}});
  x = layers.node("shrink", "Resize", std::vector{x}, {{"sizes", std::vector<std::int64_t>{9, 11}}, {"mode", std::string("cubic")}});
  x = layers.node("sample", "AveragePool", std::vector{x}, {{"kernel_shape", three}, {"strides", std::vector<std::int64_t>{2, 2}}});
  const auto result = layers.linear("fc", layers.global_average("average", x), 4);
  return std::move(layers).finish(result, "output");
}

/// A fused layer whose halves are sliced apart, as exported recurrent networks and gated layers have them.
graph::Graph gates(std::int64_t batch) {
  Layers layers;
  const auto fused = layers.linear("fused", layers.builder().add_input("input", {DType::F32, {batch, 12}}), 16);
  const auto half = [&](const char* name, std::int64_t first) {
    graph::Attributes part{{"starts", std::vector{first}}, {"ends", std::vector{first + 8}}, {"axes", std::vector<std::int64_t>{1}}};
    return layers.node(name, "Slice", std::vector{fused}, std::move(part));
  };
  const auto gated = layers.node("gated", "Mul", std::vector{layers.relu("open", half("gate", 0)), half("value", 8)});
  const auto result = layers.linear("last", gated, 5);
  return std::move(layers).finish(result, "output");
}

/// A loss that the model computes itself: its gradient is the same for every sample, so it is made whole and sliced.
graph::Graph squares(std::int64_t batch) {
  Layers layers;
  const auto x = layers.linear("a", layers.builder().add_input("input", {DType::F32, {batch, 12}}), 8);
  const auto y = layers.linear("b", layers.relu("relu", x), 4);
  graph::Attributes all{{"axes", std::vector<std::int64_t>{0, 1}}, {"keepdims", std::int64_t{0}}};
  const auto result = layers.node("sum", "ReduceSum", std::vector{layers.node("square", "Mul", std::vector{y, y})}, all);
  return std::move(layers).finish(result, "loss");
}

/// Attention without a causal mask: a bias on the scores, dropout on the weights, and fewer queries than keys.
graph::Graph encoder(std::int64_t batch) {
  constexpr std::int64_t kKeys = 7, kQueries = 5, kHeads = 2, kWidth = 3, kHidden = kHeads * kWidth;
  Layers layers;
  const auto tokens = layers.builder().add_input("tokens", {DType::F32, {batch, kKeys, 8}});
  const auto asked = layers.builder().add_input("asked", {DType::F32, {batch, kQueries, 8}});
  const auto heads = [&](const std::string& name, graph::TensorId x, std::int64_t length) {
    const auto split = layers.reshape(name + ".split", layers.dense(name, x, kHidden), {batch, length, kHeads, kWidth});
    return layers.transpose(name + ".heads", split, {0, 2, 1, 3});
  };
  const auto q = heads("q", asked, kQueries), k = heads("k", tokens, kKeys), v = heads("v", tokens, kKeys);
  auto scores = layers.matmul("scores", q, layers.transpose("k.turned", k, {0, 1, 3, 2}));
  graph::Value bias{{DType::F32, {kQueries, kKeys}}, {}, {}};
  for (int n = 0; n < kQueries * kKeys; ++n) bias.reals.push_back(0.1 * (n % 5));
  scores = layers.add("bias", scores, layers.builder().add_constant("distance", std::move(bias)));
  const auto weights = layers.node("weights", "Softmax", std::vector{scores}, {{"axis", std::int64_t{-1}}});
  // As exporters write it, for rows that see no key.
  const auto empty = layers.node("empty", "IsNaN", std::vector{weights});
  const auto guarded = layers.node("guarded", "Where", std::vector{empty, layers.constant("zero", 0), weights});
  const auto kept = layers.node("kept", "Dropout", std::vector{guarded}, {{"ratio", 0.3}, {"stream", std::int64_t{5}}});
  const auto mixed = layers.transpose("joined", layers.matmul("mix", kept, v), {0, 2, 1, 3});
  const auto y = layers.dense("out", layers.reshape("flat", mixed, {batch, kQueries, kHidden}), 4);
  graph::Attributes all{
      {"axes", std::vector<std::int64_t>{0, 1, 2}}, {"keepdims", std::int64_t{0}}, {"scale", 0.002 / static_cast<double>(batch)}};
  const auto loss = layers.node("sum", "ReduceSum", std::vector{layers.node("square", "Mul", std::vector{y, y})}, all);
  return std::move(layers).finish(loss, "loss");
}

graph::Graph build(const Case& c) {
  if (c.model == "encoder") return encoder(c.batch);
  if (c.model == "gates") return gates(c.batch);
  if (c.model == "squares") return squares(c.batch);
  if (c.model == "pools") return pools(c.batch);
  if (c.model == "mlp") return mlp(c.batch);
  if (c.model == "cnn") return cnn(c.batch);
  if (c.model == "moe")
    return graph::zoo::build("moe?layers=2&hidden=16&heads=2&kv_heads=1&ffn=24&seq=6&vocab=24&experts=4&top_k=2&capacity=125&balance=1",
                             c.batch);
  // Latent attention, a dense block before blocks with experts that choose and one that all share, a module that predicts a further token.
  if (c.model == "latent")
    return graph::zoo::build(
        "moe?layers=3&hidden=16&heads=4&kv_heads=0&ffn=24&moe_ffn=12&dense_layers=1&shared_experts=1&seq=6&vocab=24&experts=4&top_k=2&gate="
        "1"
        "&gate_scale=2500&kv_lora=8&q_lora=12&nope_dim=4&rope_dim=2&v_dim=6&mtp=1",
        c.batch);
  // Heads wider than hidden / heads, normalized, with biases, that see three tokens in every other block.
  if (c.model == "narrow")
    return graph::zoo::build(
        "llama?layers=2&hidden=16&heads=4&kv_heads=2&head_dim=6&ffn=24&seq=6&vocab=24&qk_norm=1&qkv_bias=1&window=3&window_every=2",
        c.batch);
  // Without biases: none has a gradient that is nothing but rounding, as those of keys.
  if (c.model == "llama") return graph::zoo::build("llama?layers=2&hidden=16&heads=4&kv_heads=2&ffn=40&seq=6&vocab=40", c.batch);
  if (c.model == "sinks")
    return graph::zoo::build(
        "moe?layers=2&hidden=16&heads=4&kv_heads=2&ffn=12&seq=6&vocab=24&experts=4&sinks=1&o_bias=1&qkv_bias=1&expert_bias=1&window=3",
        c.batch);
  if (c.model == "hybrid")
    return graph::zoo::build(
        "hybrid?blocks=2&attention_at=1&hidden=16&heads=4&kv_heads=2&head_dim=6&ssm_heads=4&ssm_head_dim=3&ssm_state=5&ssm_groups=2&chunk="
        "2&"
        "seq=6&vocab=24&ffn=7&experts=4&top_k=2&shared_ffn=9&latent=10",
        c.batch);
  // Adapters beside weights that are not trained.
  if (c.model == "adapted")
    return graph::with_adapters(graph::zoo::build("llama?layers=2&hidden=16&heads=4&kv_heads=2&ffn=24&seq=6&vocab=24", c.batch), {4, 8, {}})
        .graph;
  if (c.model == "gpt") return graph::zoo::build("gpt?layers=2&hidden=16&heads=2&seq=6&vocab=24", c.batch);
  throw BadInput("model " + c.model,
                 "use mlp, cnn, gpt, llama, moe, latent, narrow, sinks, hybrid, adapted, encoder, pools, gates or squares");
}

}  // namespace

std::string to_text(const Case& c) { return c.model + "/" + std::to_string(c.batch) + "/" + c.plan + "/" + c.dtype; }

Case parse_case(const std::string& text) {
  std::istringstream in(text);
  Case c;
  std::string batch;
  std::getline(in, c.model, '/');
  std::getline(in, batch, '/');
  std::getline(in, c.plan, '/');
  std::getline(in, c.dtype, '/');
  c.batch = std::stoll(batch);
  return c;
}

graph::TrainingGraph training_of(const Case& c, const std::string& optimizer) {
  graph::TrainingOptions options;
  options.loss = c.model == "squares" || c.model == "encoder" ? "loss"
                 : c.model == "moe"                           ? "cross-entropy+0.01*balance"
                 : c.model == "latent"                        ? "cross-entropy+0.3*mtp"
                                                              : "cross-entropy";
  options.optimizer.name = optimizer;
  options.optimizer.values["lr"] = 0.05;
  if (optimizer == "sgd") options.optimizer.values["momentum"] = 0.9;
  auto model = graph::with_initial_values(build(c));
  if (c.dtype == "f64") model = graph::with_float_type(model, DType::F64);
  if (c.dtype == "bf16" || c.dtype == "f16") model = graph::with_narrow_type(model, *dtype_from_name(c.dtype)).graph;
  return graph::build_training_graph(model, options);
}

CpuBackend backend_of(const Case& c) { return CpuBackend(c.dtype == "f64" ? "reference" : "auto"); }

plan::Program program_of(const Case& c, const graph::TrainingGraph& training) {
  plan::LoweringOptions options;
  options.bucket_bytes = 2000;  // several buckets, small as the models are
  return plan::lower(training, plan::parse_plan(c.plan), backend_of(c), options);
}

}  // namespace rehearsal::exec::sample
