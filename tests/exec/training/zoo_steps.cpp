// Whole training steps of the zoo's models in f64: gradients against differences of the loss, and losses that fall.

#include <cmath>
#include <map>

#include "base/random.hpp"
#include "exec/play/interpreter.hpp"
#include "graph/adapters.hpp"
#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/graph/zoo/small.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using graph::TensorId;
using Values = std::vector<double>;

namespace {

constexpr std::uint64_t kSeed = 5;

graph::TrainingGraph training_of(const std::string& reference, const std::string& loss, double lr) {
  graph::TrainingOptions options;
  options.loss = loss;
  options.dropout = false;
  options.optimizer.values["lr"] = lr;
  return graph::build_training_graph(graph::with_float_type(graph::with_initial_values(graph::zoo::build(reference)), DType::F64), options);
}

double norm(const Values& v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

class Rehearsal {
 public:
  /// Inputs are normal, or below `classes` where they are integers.
  Rehearsal(const graph::TrainingGraph& training, std::int64_t classes) : training_(training), interpreter_(training.graph, kSeed) {
    std::uint64_t stream = 0;
    for (const TensorId t : training.graph.inputs()) {
      const auto& type = training.graph[t].type;
      Values values(static_cast<std::size_t>(graph::element_count(type.shape)));
      ++stream;
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = is_float(type.dtype) ? random_normal(kSeed, stream, i)
                                         : std::floor(random_uniform(kSeed, stream, i) * static_cast<double>(classes));
      }
      interpreter_.set_reals(t, values);
    }
  }

  double loss() {
    interpreter_.run();
    return interpreter_.get_reals(training_.loss)[0];
  }
  Values value(std::size_t p) const { return interpreter_.get_reals(training_.parameters[p].value); }
  Values gradient(std::size_t p) const { return interpreter_.get_reals(training_.parameters[p].gradient); }

  void move(const std::vector<Values>& direction, double size) {
    for (std::size_t p = 0; p < direction.size(); ++p) {
      const TensorId t = training_.parameters[p].value;
      Values moved = interpreter_.get_reals(t);
      for (std::size_t i = 0; i < direction[p].size(); ++i) moved[i] += size * direction[p][i];
      interpreter_.set_reals(t, moved);
    }
  }

  /// The loss after a step of `size` along `direction` of every parameter that has one.
  double loss_along(const std::vector<Values>& direction, double size) {
    std::vector<Values> before;
    for (std::size_t p = 0; p < direction.size(); ++p) {
      const TensorId t = training_.parameters[p].value;
      before.push_back(interpreter_.get_reals(t));
      Values moved = before.back();
      for (std::size_t i = 0; i < direction[p].size(); ++i) moved[i] += size * direction[p][i];
      interpreter_.set_reals(t, moved);
    }
    const double result = loss();
    for (std::size_t p = 0; p < direction.size(); ++p) interpreter_.set_reals(training_.parameters[p].value, before[p]);
    return result;
  }

 private:
  const graph::TrainingGraph& training_;
  Interpreter interpreter_;
};

/// The gradient's direction and a random one, each of length 1: sees errors along and across the gradient.
Values probe(const Values& gradient, std::uint64_t stream) {
  Values random(gradient.size()), sum(gradient.size());
  for (std::size_t i = 0; i < random.size(); ++i) random[i] = random_normal(kSeed + 1, stream, i);
  const double g = std::max(norm(gradient), 1e-300), r = norm(random);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = gradient[i] / g + random[i] / r;
  return sum;
}

}  // namespace

TEST_CASE("every gradient of a transformer is the slope of the loss") {
  const std::string name =
      GENERATE("gpt", "gpt-neox", "mpt", "llama", "llama of wide heads", "gemma", "olmo", "moe", "balanced moe", "latent moe",
               "moe of chosen tokens", "moe of chosen blocks", "delta rule", "gated moe", "deepseek-v4", "deepseek-v4 of many", "gemma 4",
               "gemma 4 with experts", "heads of windows", "gates of heads", "moe of scaled input", "moe of all scores and sinks", "hybrid",
               "hybrid with latent experts", "bert", "transformer", "t5", "vit");
  INFO(name);
  const auto small = [](const char* of, const char* more) { return graph::zoo::small_variant(of) + more; };
  const std::string windows = "moe?batch=2&layers=3&hidden=16&heads=4&kv_heads=2&head_dim=6&ffn=12&seq=8&vocab=11&experts=3&window=3&";
  const std::map<std::string, std::pair<std::string, std::string>> variants{
      {"llama of wide heads", {small("llama", "&head_dim=6&qk_norm=2&qkv_bias=1&window=3&window_every=2"), ""}},
      {"gemma",
       {small("llama",
              "&act=1&norms=1&score_cap=2&logit_cap=3&embed_scale=1&query_scale=9&window=3&window_every=2&window_theta=100&tied=1"),
        ""}},
      {"olmo", {small("llama", "&norms=2&qk_norm=2"), ""}},
      {"balanced moe", {small("moe", "&balance=1"), "cross-entropy+0.5*balance"}},
      {"latent moe",
       {"moe?batch=2&layers=2&hidden=16&heads=4&kv_heads=0&ffn=24&moe_ffn=12&dense_layers=1&shared_experts=1&seq=8&vocab=11&experts=3&gate="
        "1"
        "&gate_scale=2500&kv_lora=8&q_lora=12&nope_dim=4&rope_dim=2&v_dim=6&mtp=2",
        "cross-entropy+0.3*mtp"}},
      {"moe of chosen tokens",
       {"moe?batch=2&layers=3&hidden=16&heads=4&kv_heads=0&ffn=24&moe_ffn=12&seq=8&vocab=11&experts=3&kv_lora=8&q_lora=12&nope_dim=4&rope_"
        "dim=2&v_dim=6&index_heads=3&index_dim=6&index_top=2&index_first=1&index_every=2",
        ""}},
      {"moe of chosen blocks",
       {small("moe", "&qk_norm=1&rotary_dim=2&index_from=1&index_heads=2&index_dim=6&index_block=3&index_top=2"), ""}},
      {"delta rule", {small("llama", "&full_every=2&delta_key_heads=2&delta_heads=4&delta_key_dim=5&delta_dim=3&chunk=4&attn_gate=1"), ""}},
      {"gated moe",
       {small("moe", "&shared_experts=1&shared_gate=1&full_every=2&delta_key_heads=1&delta_heads=2&delta_key_dim=3&delta_dim=4&chunk=2"),
        ""}},
      {"deepseek-v4 of many",
       {"deepseek-v4?batch=2&layers=2&first_many=1&hidden=12&streams=3&sinkhorn=2&heads=2&head_dim=6&rope_dim=2&q_lora=8&o_groups=1&o_lora="
        "5&"
        "window=8&few=2&many=4&index_heads=1&index_dim=2&experts=3&top_k=3&moe_ffn=7&shared_experts=0&hash_layers=2&seq=8&vocab=11&tied=1",
        ""}},
      {"gemma 4",
       {"llama?batch=2&layers=2&hidden=16&heads=4&ffn=24&seq=8&vocab=11&act=1&norms=1&logit_cap=3&embed_scale=1&query_scale=1&qk_norm=1&"
        "v_norm=1&kv_same=1&head_dim=8&kv_heads=1&rotary_dim=2&rotary_whole=1&window=3&window_every=2&window_theta=100&window_head_dim=6&"
        "window_kv_heads=2&window_rotary_dim=6&tied=1",
        ""}},
      {"gemma 4 with experts", {small("moe", "&act=1&norms=1&dense_beside=1&moe_ffn=8"), ""}},
      {"heads of windows",
       {windows + "value_dim=5&value_scale=707&sinks=2&rotary_dim=2&window_every=3&window_first=1&window_kv_heads=4", ""}},
      {"gates of heads", {windows + "attn_gate=2&window_every=2&window_offset=1&window_heads=6&qk_norm=1", ""}},
      {"moe of scaled input",
       {"moe?batch=2&layers=2&hidden=16&heads=4&kv_heads=2&ffn=12&seq=8&vocab=11&experts=3&top_k=1&gate=2&moe_every=2&o_bias=1&qk_norm=3&"
        "nope_every=2",
        ""}},
      {"hybrid with latent experts", {small("hybrid", "&latent=10"), ""}},
      {"moe of all scores and sinks", {small("moe", "&gate=3&expert_bias=1&moe_ffn=8&sinks=1"), ""}}};
  const auto variant = variants.find(name);
  const auto training = variant == variants.end() ? training_of(graph::zoo::small_variant(name), "", 0)
                                                  : training_of(variant->second.first, variant->second.second, 0);
  Rehearsal rehearsal(training, name == "bert" ? 2 : 7);  // BERT has two types of tokens
  rehearsal.loss();
  std::vector<Values> gradients;
  double largest = 0;
  for (std::size_t p = 0; p < training.parameters.size(); ++p) {
    gradients.push_back(rehearsal.gradient(p));
    largest = std::max(largest, norm(gradients.back()));
  }
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    INFO(training.graph[training.parameters[p].value].name);
    std::vector<Values> direction(gradients.size());
    direction[p] = probe(gradients[p], p);
    // The difference quotient is good to step^2 and to 1e-16 / step; the delta rule divides by lengths of vectors, which are small here.
    const double step = name == "delta rule" ? 1e-7 : 1e-6;
    const double slope = (rehearsal.loss_along(direction, step) - rehearsal.loss_along(direction, -step)) / (2 * step);
    CHECK(slope == Approx(dot(gradients[p], direction[p])).epsilon(1e-6).margin(1e-9 * largest + 1e-10));
  }
}

TEST_CASE("training with adapters begins with the model as it was, and their gradients are slopes of the loss") {
  const auto model = graph::with_initial_values(graph::zoo::build(graph::zoo::small_variant("llama")));
  const auto of = [](const graph::Graph& g, double lr) {
    graph::TrainingOptions options;
    options.optimizer.values["lr"] = lr;
    return graph::build_training_graph(graph::with_float_type(g, DType::F64), options);
  };
  const auto whole = of(model, 0), training = of(graph::with_adapters(model, {3, 6, {}}).graph, 0);
  Rehearsal before(whole, 7), rehearsal(training, 7);
  CHECK(rehearsal.loss() == Approx(before.loss()).epsilon(1e-13));
  // Where B is zero A has no gradient: somewhere else all have one.
  std::vector<Values> away;
  for (std::size_t p = 0; p < training.parameters.size(); ++p) away.push_back(probe(rehearsal.gradient(p), p));
  rehearsal.move(away, 0.5);
  rehearsal.loss();
  std::vector<Values> gradients;
  for (std::size_t p = 0; p < training.parameters.size(); ++p) gradients.push_back(rehearsal.gradient(p));
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    INFO(training.graph[training.parameters[p].value].name);
    CHECK(norm(gradients[p]) > 1e-8);
    std::vector<Values> direction(gradients.size());
    direction[p] = probe(gradients[p], p + 100);
    constexpr double kStep = 1e-6;
    const double slope = (rehearsal.loss_along(direction, kStep) - rehearsal.loss_along(direction, -kStep)) / (2 * kStep);
    CHECK(slope == Approx(dot(gradients[p], direction[p])).epsilon(1e-6).margin(1e-10));
  }
}

TEST_CASE("a scan by chunks is the recurrence") {
  // chunks of one token hand on the state from token to token
  const auto loss = [](int chunk) {
    const auto training = training_of(
        "hybrid?batch=2&blocks=2&hidden=16&ssm_heads=4&ssm_head_dim=3&ssm_state=5&ssm_groups=2&seq=8&vocab=11&"
        "ffn=7&experts=0&chunk=" +
            std::to_string(chunk),
        "", 0);
    return Rehearsal(training, 7).loss();
  };
  const double recurrence = loss(1);
  for (const int chunk : {2, 4, 8}) CHECK(loss(chunk) == Approx(recurrence).epsilon(1e-12));
}

TEST_CASE("the delta rule by chunks is the recurrence") {
  const auto loss = [](int chunk) {
    const auto training = training_of(
        "llama?batch=2&layers=2&hidden=16&heads=4&ffn=24&seq=8&vocab=11&full_every=2&delta_key_heads=2&delta_heads=4&delta_key_dim=5&delta_"
        "dim=3&chunk=" +
            std::to_string(chunk),
        "", 0);
    return Rehearsal(training, 7).loss();
  };
  const double recurrence = loss(1);
  for (const int chunk : {2, 4, 8}) CHECK(loss(chunk) == Approx(recurrence).epsilon(1e-12));
}

TEST_CASE("experts that are all weighed alike are in balance, and training brings others nearer to it") {
  const auto training = training_of(graph::zoo::small_variant("moe") + "&balance=1", "balance", 0);
  Rehearsal rehearsal(training, 7);
  const double uneven = rehearsal.loss();
  std::vector<Values> down, to_zero;
  for (std::size_t p = 0; p < training.parameters.size(); ++p) {
    const bool is_gate = training.graph[training.parameters[p].value].name.find(".gate.weight") != std::string::npos;
    down.push_back(rehearsal.gradient(p));
    to_zero.push_back(is_gate ? rehearsal.value(p) : Values{});
  }
  CHECK(rehearsal.loss_along(down, -1e-5) < uneven);  // so little that no token chooses another expert
  // Two layers, in each 3 experts: 3 x sum of shares / 3, and the shares add up to 1.
  CHECK(rehearsal.loss_along(to_zero, -1) == Approx(2).epsilon(1e-12));
}

TEST_CASE("the gradients of convolutional models are the slope of the loss") {
  const auto [reference, loss] =
      GENERATE(std::pair<std::string, std::string>{"unet2d?image=16&channels=3&depth=2&batch=2", "cross-entropy"},
               std::pair<std::string, std::string>{"unet2d?image=8&channels=2&depth=1&batch=2", "dice"},
               std::pair<std::string, std::string>{"unet2d?image=8&channels=2&depth=1&batch=2", "bce"});
  INFO(reference << " " << loss);
  const auto training = training_of(reference, loss, 0);
  Rehearsal rehearsal(training, 2);
  rehearsal.loss();
  std::vector<Values> direction;
  double expected = 0;
  for (std::size_t p = 0; p < training.parameters.size(); ++p) {
    const Values gradient = rehearsal.gradient(p);
    direction.push_back(probe(gradient, p));
    expected += dot(gradient, direction.back());
  }
  constexpr double kStep = 1e-7;  // small: ReLU and pooling have kinks
  const double slope = (rehearsal.loss_along(direction, kStep) - rehearsal.loss_along(direction, -kStep)) / (2 * kStep);
  CHECK(slope == Approx(expected).epsilon(1e-5));
}

TEST_CASE("networks for images take a step", "[slow]") {
  // Difference quotients of these networks, in batch normalization over two samples, did not agree with their gradients; ill-conditioned
  // statistics are the likely reason, which is not proven. Their operators have gradient tests of their own.
  const std::string name = GENERATE("resnet50_v2", "googlenet", "mobilenet_v3_small", "efficientnet_b0");
  INFO(name);
  const auto training = training_of(graph::zoo::small_variant(name), "", 1e-3);
  Rehearsal rehearsal(training, 2);
  const double first = rehearsal.loss();
  CHECK(std::isfinite(first));
  CHECK(first > 0);
  for (std::size_t p = 0; p < training.parameters.size(); ++p) {
    INFO(training.graph[training.parameters[p].value].name);
    CHECK(std::isfinite(norm(rehearsal.gradient(p))));
  }
  const double second = rehearsal.loss();
  CHECK(std::isfinite(second));
  CHECK(second != first);
}

TEST_CASE("losses fall") {
  const auto training = training_of("gpt?layers=1&hidden=16&heads=2&seq=8&vocab=13&batch=4", "", 0.5);
  Rehearsal rehearsal(training, 13);
  const double first = rehearsal.loss();
  double last = first;
  for (int step = 0; step < 30; ++step) last = rehearsal.loss();
  CHECK(first == Approx(std::log(13.0)).epsilon(0.2));  // nothing is known yet: about uniform
  CHECK(last < 0.75 * first);
}
