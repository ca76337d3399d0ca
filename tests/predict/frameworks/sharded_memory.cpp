// Bytes of one rank where replicas shard parameters, and where only low-rank adapters are trained.

#include "graph/adapters.hpp"
#include "tests/catch.hpp"
#include "tests/predict/frameworks/sample.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using sample::Sample;

const std::string kSmall = "zoo:gpt?layers=6&hidden=64&heads=4&seq=32&vocab=1000&batch=2";
constexpr double kBlock = 12.0 * 64 * 64 + 13 * 64, kRest = 1000 * 64 + 32 * 64 + 2 * 64;  // parameters

graph::Graph adapted() { return graph::with_adapters(graph::zoo::build(kSmall), {8, 0, {"*attn*"}}).graph; }

TEST_CASE("what is around the blocks stays gathered, and of the blocks the one at work and the next") {
  Sample s(kSmall, platforms::load("dgx-h100"), "torchtitan", "bf16");
  s.job.recipe.chunked_loss = true;  // the last block's backward pass is the fullest moment
  const double alone = s.memory().activations;
  s.job.plan.dp = 8, s.job.plan.zero = 3;
  const auto sharded = s.memory();
  CHECK(sharded.gathered == Approx(2 * kRest));
  // Two blocks of 16 bits, and the gradients of one before they are scattered.
  CHECK(sharded.activations - alone == Approx((2 * 2 + 2) * kBlock));
  Sample pieces(kSmall, platforms::load("dgx-a100"), "megatron-deepspeed", "bf16");
  pieces.job.plan.dp = 8, pieces.job.plan.zero = 3;                // ZeRO of DeepSpeed gathers module by module, and nothing stays
  CHECK(pieces.memory().gathered == Approx(2 * 2 * (1000 * 64)));  // two tables of words
}

TEST_CASE("weights that are gathered in 8 bits take half of their place") {
  Sample s(kSmall, platforms::load("dgx-h100"), "torchtitan", "fp8");
  s.job.recipe.chunked_loss = true;
  s.job.plan.dp = 8, s.job.plan.zero = 3;
  const double narrow = s.memory().activations;
  s.job.recipe.fp8_gather = false;
  CHECK(s.memory().activations - narrow == Approx(2 * kBlock));  // of the block at work and the next one a byte each
  s.job.recipe.keeps_gathered = true;
  CHECK(s.memory().gathered == Approx(2 * (6 * kBlock + kRest)));
  s.job.recipe.fp8_gather = true;
  CHECK(s.memory().gathered == Approx(6 * kBlock + 2 * kRest));
}

TEST_CASE("experts that every rank has whole as its own are never gathered") {
  Sample s("zoo:moe?layers=2&hidden=64&heads=4&kv_heads=4&ffn=128&seq=32&vocab=100&experts=8&top_k=2&batch=8&capacity=100",
           platforms::load("dgx-h100"), "torchtitan", "bf16");
  s.job.micro_batch = 1;
  s.job.recipe.keeps_gathered = true;
  const auto gathered_experts = [&](const char* plan) {
    s.job.plan = plan::parse_plan(plan);
    double rest = 0;
    for (const auto& part : s.parts().parts) rest += part.repeats * (part.weights - part.expert_weights).all;
    return s.memory().gathered - 2 * rest;
  };
  constexpr double kExpert = 3 * 64 * 128;                                     // gate, up and down
  CHECK(gathered_experts("dp=8,ep=4,zero=3") == Approx(2 * 2 * 2 * kExpert));  // two layers of two, two bytes each
  for (const auto* own : {"dp=8,ep=8,zero=3", "dp=4,cp=2,ep=8,zero=3", "dp=4,tp=2,ep=8,zero=3,sequence_parallel=on"}) {
    CAPTURE(own);
    CHECK(gathered_experts(own) == Approx(0).margin(1));
  }
}

TEST_CASE("under FSDP blocks of frozen weights hold what they read, and its gradient, until the backward pass ends") {
  Sample s(adapted(), platforms::load("dgx-a100"), "transformers");
  s.job.recipe.chunked_loss = s.job.recipe.keeps_gathered = true;
  s.job.plan.recompute.rule = plan::RecomputeRule::Full;
  s.job.plan.dp = 2, s.job.plan.zero = 3;
  const double held = s.memory().activations;
  s.profile.holds_inputs_of_frozen = false;
  const double input = 64 * 64 * 2;  // 64 tokens of 64 values of two bytes
  // When the backward pass comes to the first of six blocks, five inputs that are not needed any more, and five gradients, of which one
  // each takes the place of the other.
  CHECK(held - s.memory().activations == Approx(5 * input));
  s.job.plan.zero = 0;
  const double replicated = s.memory().activations;
  s.profile.holds_inputs_of_frozen = true;
  CHECK(s.memory().activations == replicated);
}

TEST_CASE("adapters of 32 bits keep what they read in 32 bits") {
  Sample s(adapted(), platforms::load("dgx-a100"), "transformers");
  const double single = sample::block_of(s.parts()).kept.all();
  s.profile.adapters_in_fp32 = false;
  // Of each of 64 tokens: what the adapters of attention's inputs and of its output read, 64 values each, and 8 values twice between their
  // two matrices, have four bytes instead of two; the result of attention is kept in two beside that.
  CHECK(single - sample::block_of(s.parts()).kept.all() == Approx(64 * ((4 - 2) * (64 + 64 + 8 + 8) + 2 * 64)));
  Sample trained(kSmall, platforms::load("dgx-a100"), "transformers");
  const double all = trained.memory().activations;
  trained.profile.adapters_in_fp32 = false;
  CHECK(trained.memory().activations == all);
}

TEST_CASE("adapters are what is added to products of frozen weights, whatever their rank") {
  const std::string wide = "zoo:gpt?layers=2&hidden=256&heads=4&seq=32&vocab=1000&batch=2";
  for (const std::int64_t rank : {16, 127, 128, 256}) {
    CAPTURE(rank);
    Sample s(graph::with_adapters(graph::zoo::build(wide), {rank, 2.0 * static_cast<double>(rank), {"*attn*"}}).graph,
             platforms::load("dgx-a100"), "transformers");
    const double single = sample::block_of(s.parts()).kept.all();
    s.profile.adapters_in_fp32 = false;
    // As above, of 256 values and of the rank's.
    CHECK(single - sample::block_of(s.parts()).kept.all() ==
          Approx(64 * ((4 - 2) * (256 + 256 + 2.0 * static_cast<double>(rank)) + 2 * 256)));
  }
  // Matrices of 64 that are trained beside frozen ones are none.
  Sample s(sample::with_frozen(kSmall, "*mlp*"), platforms::load("dgx-a100"), "transformers");
  const double kept = sample::block_of(s.parts()).kept.all();
  s.profile.adapters_in_fp32 = false;
  CHECK(sample::block_of(s.parts()).kept.all() == kept);
}

TEST_CASE("what torchtitan gathers of a split sequence waits whole, unless products gather it themselves") {
  Sample s("zoo:llama?layers=4&hidden=64&heads=4&kv_heads=4&ffn=256&seq=32&vocab=1000&batch=2", platforms::load("dgx-h100"), "torchtitan");
  s.job.plan.tp = 4, s.job.plan.sequence_parallel = true;
  s.job.recipe.chunked_loss = true;
  const double apart = s.memory().activations;
  s.job.recipe.tensor_overlap = true;
  // In each of 4 blocks what attention's inputs and the feed-forward layer read: of 64 tokens of 64 values of two bytes the three quarters
  // that other ranks have.
  CHECK(apart - s.memory().activations == Approx(4 * 2 * 64 * 64 * 2 * 3 / 4.0));
  s.job.plan.sequence_parallel = false;
  const double replicated = s.memory().activations;
  s.job.recipe.tensor_overlap = false;
  CHECK(s.memory().activations == replicated);
}

TEST_CASE("torchtitan of Blackwell compiles the loss, and what one moment leaves serves the next") {
  Sample s(kSmall, platforms::load("dgx-b200"), "torchtitan", "bf16");
  const auto reading = [&](const RankMemory& m) { return device_memory(m, s.profile, costmodel::published_constants().values, 192e9); };
  const auto newer = s.memory();
  CHECK(reading(newer).reading == reading(newer).needed);
  s.profile.newer_on_blackwell = false;
  const auto older = s.memory();
  CHECK(older.activations - newer.activations == Approx(64 * 1000 * (14 - 8)));  // logits of 64 tokens
  CHECK(reading(older).reading > reading(older).needed);
  s.profile.newer_on_blackwell = true;
  s.profile.elementwise_fusion = 1;  // not compiled
  CHECK(s.memory().activations == Approx(older.activations).epsilon(0.05));
  Sample hopper(kSmall, platforms::load("dgx-h100"), "torchtitan", "bf16");
  CHECK(hopper.memory().activations == older.activations);
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
