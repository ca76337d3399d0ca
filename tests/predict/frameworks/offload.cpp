// What a framework moves to the host's memory: bytes, seconds, and what is refused.

#include <fstream>

#include "plan/plan_keys.hpp"
#include "predict/frameworks/plan_rules.hpp"
#include "predict/frameworks/recipe.hpp"
#include "predict/violations.hpp"
#include "tests/catch.hpp"
#include "tests/predict/frameworks/sample.hpp"
#include "tests/process.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using sample::block_of;
using sample::Sample;

const std::string kSmall = "zoo:gpt?layers=6&hidden=64&heads=4&seq=32&vocab=1000&batch=2";

TEST_CASE("offloaded activations leave two blocks on the device, and the rest in the host's memory") {
  Sample s(kSmall, platforms::load("dgx-a100"), "pytorch");
  const auto without = s.memory();
  const double block = block_of(s.parts()).kept.all();
  s.job.plan.offload = plan::Offload::Activations;
  const auto with = s.memory();
  CHECK(with.host == Approx(6 * block));
  CHECK(without.activations - with.activations == Approx((6 - 2) * block));  // one at work, one on its way
  s.job.recipe.offloaded_blocks = 3;                                         // of six
  CHECK(s.memory().host == Approx(3 * block));
  CHECK(without.activations - s.memory().activations == Approx((3 - 2) * block));
}

TEST_CASE("a block waits for what its kernels do not hide of the way to the host and back") {
  Sample s(kSmall, platforms::load("dgx-a100"), "pytorch");
  const double alone = s.time().seconds, block = block_of(s.parts()).kept.all();
  s.job.plan.offload = plan::Offload::Activations;
  s.platform.nodes[0].device.host_bandwidth->value = BytesPerSecond(1e15);
  CHECK(s.time().seconds == Approx(alone));
  // So slow that kernels count for nothing: six blocks go out in the forward pass and come back in the backward pass.
  s.platform.nodes[0].device.host_bandwidth->value = BytesPerSecond(1e6);
  CHECK(s.time().seconds == Approx(2 * 6 * block / 1e6).epsilon(0.02));
}

TEST_CASE("what recomputation keeps is what is offloaded beside it") {
  Sample s(kSmall, platforms::load("dgx-a100"), "pytorch");
  s.job.plan.recompute.rule = plan::RecomputeRule::Full;
  s.job.plan.offload = plan::Offload::Activations;
  CHECK(s.memory().host == Approx(6.0 * 64 * 64 * 2));  // the inputs of six blocks: 64 tokens of 64 values of two bytes
}

TEST_CASE("an optimizer whose state stays with the host is updated there") {
  Sample s(kSmall, platforms::load("dgx-a100"), "megatron");
  const auto without = s.memory();
  const double parameters = 6 * (12.0 * 64 * 64 + 13 * 64) + 1000 * 64 + 32 * 64 + 2 * 64;
  s.job.plan.offload = plan::Offload::Optimizer;
  CHECK(s.memory().host == Approx(12 * parameters));  // a copy of the weights and two moments, in fp32
  CHECK(without.all() - s.memory().all() == Approx(12 * parameters));
  // Gradients of four bytes to the host at 32 GB/s. There 28 bytes a parameter pass through half of 409.6 GB/s (parameter, gradient and
  // moments are read, all but the gradient written), and four for the norm; the weights, of two bytes, come back meanwhile. Megatron's
  // update of all tensors is 40 calls of 5 us.
  const double link = s.job.device().host_bandwidth->value.value();
  const auto expected = [&](double sharing) { return 40 * 5e-6 + parameters * (4 / link + 32 * sharing / (0.5 * 409.6e9)); };
  CHECK(s.time().optimizer == Approx(expected(1)).epsilon(0.05));
  s.job.plan.dp = 8;  // eight replicas share the host's memory
  CHECK(s.time().optimizer == Approx(expected(8)).epsilon(0.05));
}

TEST_CASE("packed documents attend to themselves alone") {
  Sample s("zoo:gpt?layers=1&hidden=64&heads=1&seq=2048&vocab=16&batch=1", platforms::load("dgx-h100"), "composer");
  const auto work = [&] { return sample::work_of(s.parts(), costmodel::RateKind::FlashAttention); };
  CHECK(work() == Approx(sample::attention_work({1, 2048, 2048, 1024, 2 * 64})));
  s.job.recipe = parse_recipe("--recipe", "packed=512");
  CHECK(work() == Approx(sample::attention_work({1, 2048, 512, 256, 2 * 64})));  // a token sees a quarter as many
  const TemporaryFolder folder;
  std::ofstream(folder / "lengths") << "100\n300\n";
  // 100 tokens among 100 and 300 among 300: (100² + 300²) / 400 = 250 in the mean.
  CHECK(parse_recipe("--recipe", "packed=" + (folder / "lengths")).attention_window == 250);
  std::ofstream(folder / "windows") << "\xEF\xBB\xBF"
                                       "100\r\n300\r\n";
  CHECK(parse_recipe("--recipe", "packed=" + (folder / "windows")).attention_window == 250);
  std::ofstream(folder / "lengths") << "100\nmany\n";
  for (const char* none : {"0", "2.5", "inf", ""})
    CHECK_THROWS_WITH(parse_recipe("--recipe", std::string("packed=") + none), contains("write packed=tokens|FILE"));
  CHECK_THROWS_WITH(parse_recipe("--recipe", "packed=" + (folder / "lengths")), contains("lengths: line 2: 'many'"));
  std::ofstream(folder / "lengths") << "2.5\n";
  CHECK_THROWS_WITH(parse_recipe("--recipe", "packed=" + (folder / "lengths")), contains("lengths: line 1: '2.5'"));
  CHECK_THROWS_WITH(parse_recipe("--recipe", "packed=" + (folder / "none")), contains("none: is neither a number of tokens nor a file"));
}

TEST_CASE("names in a recipe may be written in any case") {
  const auto recipe = parse_recipe("--recipe", "Fused-Kernels=ON,cuda_graph=Off,frozen=NF4,power=Stages");
  CHECK(recipe.fused_kernels);
  CHECK(recipe.captured == false);
  CHECK(recipe.frozen_bytes == bytes_of_frozen("nf4"));
  CHECK(recipe.stage_clocks);
  CHECK_THROWS_WITH(parse_recipe("--recipe", "fused_kernels=maybe"), contains("write fused_kernels=on|off"));
}

TEST_CASE("a momentum of the optimizer's and one of the recipe's are the same") {
  const auto recipe = [](const char* text, const graph::OptimizerSettings& optimizer) {
    auto said = parse_recipe("--recipe", text);
    take_hyperparameters(said, optimizer);
    return said.momentum;
  };
  for (const auto* optimizer : {"sgd", "lars", "rmsprop"}) {
    CHECK(recipe("", {optimizer, {}}));
    CHECK(!recipe("", {optimizer, {{"momentum", 0.0}}}));
    CHECK(recipe("", {optimizer, {{"momentum", 0.9}}}));
    CHECK(!recipe("momentum=off", {optimizer, {{"momentum", 0.0}}}));
    CHECK_THROWS_WITH(recipe("momentum=off", {optimizer, {{"momentum", 0.9}}}), contains("momentum=off") && contains(optimizer));
  }
  CHECK(recipe("", {"adam", {{"momentum", 0.0}}}));  // has none to do without
}

TEST_CASE("offloading wants a link to the host and the speed of its memory") {
  auto platform = platforms::load("dgx-a100");
  const auto& profile = *costmodel::find_framework("pytorch");
  const auto refusal = [&](const char* plan) {
    return predict::to_text(plan_violations({plan::parse_plan(plan), profile, platform, SplitLimits{}, 8}));
  };
  CHECK_THAT(refusal("offload=optimizer"), !contains("offload"));
  platform.nodes[0].host_memory_bandwidth.reset();
  CHECK_THAT(refusal("offload=optimizer"), contains("add host_memory_bandwidth (\"400 GB/s\")"));
  CHECK_THAT(refusal("offload=activations"), !contains("offload"));
  platform.nodes[0].device.host_bandwidth.reset();
  CHECK_THAT(refusal("offload=activations"), contains("add device.host_bandwidth (\"32 GB/s\")"));
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
