// Bytes of one rank.

#include <numeric>

#include "graph/adapters.hpp"
#include "graph/builder.hpp"
#include "plan/memory/in_use.hpp"
#include "predict/frameworks/framework_program.hpp"
#include "tests/catch.hpp"
#include "tests/predict/frameworks/sample.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using sample::Sample;

const std::string kSmall = "zoo:gpt?layers=6&hidden=64&heads=4&seq=32&vocab=1000&batch=2";

TEST_CASE("sharding divides states, recomputation drops activations") {
  Sample s(kSmall, platforms::load("dgx-a100"), "megatron");
  s.job.plan.dp = 8;
  const auto whole = s.memory();
  // Megatron keeps 2 + 4 + 12 bytes a parameter: 6 (12·64² + 13·64) + 1000·64 + 32·64 + 2·64 parameters.
  const double parameters = 6 * (12.0 * 64 * 64 + 13 * 64) + 1000 * 64 + 32 * 64 + 2 * 64;
  CHECK(whole.states() == Approx(18 * parameters));
  s.job.plan.zero = 1;
  CHECK(s.memory().states() == Approx((6 + 12 / 8.0) * parameters));
  s.job.plan.zero = 2;
  CHECK(s.memory().states() == Approx((2 + 16 / 8.0) * parameters));
  s.job.plan.zero_group = 4;  // each half of the replicas has all of it
  CHECK(s.memory().states() == Approx((2 + 16 / 4.0) * parameters));
  s.job.plan.zero_group = 0;
  s.job.plan.recompute.rule = plan::RecomputeRule::Full;
  CHECK(s.memory().activations < whole.activations);
}

TEST_CASE("what a device reports is the sum of its parts, whether it is more than the tensors or less") {
  RankMemory m;
  m.weights = 100, m.optimizer = 300, m.gathered = 50;
  m.fullest.gradients = 50, m.fullest.activations = 500;
  const auto part = [](const std::vector<std::int64_t>& bytes, plan::MemoryCategory category) {
    return bytes[static_cast<std::size_t>(category)];
  };
  using Category = plan::MemoryCategory;
  const auto more = by_category(m, 1020), less = by_category(m, 950), least = by_category(m, 400);
  CHECK(part(more, Category::Workspace) == 20);  // 1020 - (100 + 300 + 50 + 50 + 500)
  CHECK(part(more, Category::Activations) == 500);
  CHECK(part(less, Category::Workspace) == 0);
  CHECK(part(less, Category::Activations) == 450);  // 500 - (1000 - 950)
  CHECK(part(less, Category::OptimizerState) == 300);
  CHECK(part(least, Category::Activations) == 0);
  CHECK(part(least, Category::OptimizerState) == 240);  // 400 of 500 bytes of the others
  CHECK(part(least, Category::Parameters) == 80);
  for (const auto* bytes : {&more, &less, &least})
    CHECK(std::accumulate(bytes->begin(), bytes->end(), std::int64_t{0}) == (bytes == &more ? 1020 : bytes == &less ? 950 : 400));
}

TEST_CASE("optimizers keep of each parameter what its shape asks for") {
  Sample s(kSmall, platforms::load("dgx-a100"), "megatron");
  const auto states = [&](const char* optimizer) {
    s.job.recipe.optimizer = optimizer;
    return s.memory().states();
  };
  const double matrices = 6 * 12.0 * 64 * 64, parameters = matrices + 6 * 13 * 64 + 1000 * 64 + 32 * 64 + 2 * 64;
  CHECK(states("lion") == Approx(14 * parameters));  // one number of four bytes less than adam's two
  CHECK(states("schedule-free-adamw") == Approx(18 * parameters).epsilon(1e-3));
  CHECK(states("muon") == Approx(18 * parameters - 4 * matrices));
  // Rows and columns of 64 x 192, 64 x 64, 64 x 256 and 256 x 64, of both tables; of vectors all of it.
  const double kept = 6 * (256 + 128 + 320 + 320 + 13 * 64) + 1064 + 96 + 2 * 64;
  CHECK(states("adafactor") == Approx(10 * parameters + 4 * kept));
}

TEST_CASE("FSDP gathers in the type of the computation, and shards the fp32 values beside it") {
  Sample s(kSmall, platforms::load("dgx-h100"), "torchtitan", "bf16");
  const double parameters = 6 * (12.0 * 64 * 64 + 13 * 64) + 1000 * 64 + 32 * 64 + 2 * 64;
  s.job.plan.dp = 8;
  CHECK(s.memory().weights == Approx(4 * parameters));
  s.job.plan.zero = 2;
  CHECK(s.memory().weights == Approx((2 + 4 / 8.0) * parameters));
  s.job.plan.zero = 3;
  CHECK(s.memory().weights == Approx(4 / 8.0 * parameters));
  CHECK(s.memory().gathered < 2 * parameters);
  s.job.recipe.keeps_gathered = true;  // for the backward pass, too
  CHECK(s.memory().gathered == Approx(2 * parameters));
  Sample single(kSmall, platforms::load("dgx-h100"), "torchtitan", "fp32");
  single.job.plan.dp = 8, single.job.plan.zero = 2;
  CHECK(single.memory().weights == Approx(4 * parameters));  // what is gathered is what would be sharded
}

TEST_CASE("gradients wait whole in a pipeline, and in parts where replicas scatter them after every micro-batch") {
  Sample s(kSmall, platforms::load("dgx-h100"), "torchtitan", "bf16");
  s.job.plan.dp = 8;
  const auto gradients = [&](int pp, int zero) {
    s.job.plan.pp = pp, s.job.plan.zero = zero;
    return s.memory().gradients;
  };
  const double whole = gradients(1, 0);
  CHECK(gradients(1, 2) == Approx(whole / 8));
  CHECK(gradients(1, 3) == Approx(whole / 8));
  // PyTorch's stages add up fp32 gradients of all their parameters and scatter them once, with the parameters gathered all along.
  const double staged = gradients(2, 0);
  CHECK(gradients(2, 3) == Approx(staged));
  CHECK(gradients(2, 2) == Approx(staged / 8));
}

TEST_CASE("parameters that replicas of a sequence shard are gathered before every pass") {
  Sample s("zoo:gpt?layers=2&hidden=256&heads=8&seq=512&vocab=1000&batch=1", platforms::load("dgx-h100"), "torchtitan", "bf16");
  s.job.plan.cp = 8, s.job.plan.zero = 3;
  CHECK(gathers_every_pass(s.job));
  const double positions = 512 / 8 * 256;  // of its own part of the sequence
  const double parameters = 2 * (12.0 * 256 * 256 + 13 * 256) + 1000 * 256 + positions + 2 * 256;
  CHECK(s.memory().weights == Approx(4 / 8.0 * parameters));
}

TEST_CASE("an update in the backward pass has one part's gradient, and of a sharded one this rank's share") {
  Sample s("zoo:gpt?layers=6&hidden=64&heads=4&seq=32&vocab=1000&batch=2", platforms::load("dgx-a100"), "torchtitan");
  s.job.recipe.update_in_backward = true;
  const double whole = s.memory().gradients;
  CHECK(whole > 0);
  s.job.plan.dp = 8, s.job.plan.zero = 2;
  CHECK(s.memory().gradients == Approx(whole / 8));
}

TEST_CASE("gradients of fp16 wait in fp16, and become fp32 where the state is") {
  // Megatron-Core's table of bytes a parameter: 20, and 4 + 16 / d with the distributed optimizer, where bf16 has 18 and 6 + 12 / d.
  Sample half(kSmall, platforms::load("dgx-a100"), "megatron", "fp16"), brain(kSmall, platforms::load("dgx-a100"), "megatron");
  half.job.plan.dp = brain.job.plan.dp = 8;
  CHECK(half.memory().states() / brain.memory().states() == Approx(20 / 18.0));
  half.job.plan.zero = brain.job.plan.zero = 1;
  CHECK(half.memory().states() / brain.memory().states() == Approx((4 + 16 / 8.0) / (6 + 12 / 8.0)));
}

TEST_CASE("operands of fp8 products wait for the backward pass in 8 bits") {
  const auto activations = [](const char* framework, const char* precision) {
    return Sample(kSmall, platforms::load("dgx-h100"), framework, precision).memory().activations;
  };
  // 64 tokens of 64 values: of every layer what enters the products of attention's inputs and the MLP (1 + 1 + 4 times the width), and what
  // enters the vocabulary's, has one byte instead of two. What attention reads stays in 16 bits, and so does its result, which its own
  // backward pass reads again: beside the copy of 8 bits that the product behind it keeps.
  CHECK(activations("nemo", "bf16") - activations("nemo", "fp8") == Approx(64 * 64 * (6 * (6 - 1) + 1)));
  CHECK(activations("torchtitan", "bf16") == activations("torchtitan", "fp8"));
}

TEST_CASE("a gated activation in one kernel keeps its gate and what is gated") {
  const std::string llama = "zoo:llama?layers=3&hidden=64&heads=4&kv_heads=4&ffn=256&seq=32&vocab=1000&batch=2";
  Sample fused(llama, platforms::load("dgx-h100"), "nemo"), apart(llama, platforms::load("dgx-h100"), "nemo");
  apart.profile.elementwise_fusion = 1;
  // 64 tokens, 3 layers: silu of the gate, 256 values of two bytes, is computed again.
  CHECK(apart.memory().activations - fused.memory().activations == Approx(64 * 3 * 256 * 2));
}

TEST_CASE("of a product element by element each factor is kept for the other's gradient, and nothing for a rotation's cosines") {
  const std::string llama = "zoo:llama?layers=3&hidden=64&heads=4&kv_heads=4&ffn=256&seq=32&vocab=1000&batch=2";
  const Sample s(llama, platforms::load("dgx-h100"), "nemo");
  // Of each of 64 tokens two bytes: what both norms read and make (4 times 64 values), queries, keys, values and result of attention (4
  // times 64), gate and what is gated (2 times 256), and their product (256).
  CHECK(sample::block_of(s.parts()).kept.all() == Approx(64 * 2 * (8 * 64 + 3 * 256)));
}

TEST_CASE("in fp8 jobs of MLPerf gates wait in 8 bits, and so do weights that are not trained") {
  const std::string llama = "zoo:llama?layers=3&hidden=64&heads=4&kv_heads=4&ffn=256&seq=32&vocab=1000&batch=2";
  Sample s(llama, platforms::load("dgx-h100"), "mlperf", "fp8");
  const double stored = sample::block_of(s.parts()).kept.all();
  s.profile.keeps_quantised_gates = false;
  CHECK(sample::block_of(s.parts()).kept.all() - stored == Approx(64 * 2 * 256));  // 64 tokens, a byte less of two factors of 256 values
  Sample frozen(graph::with_adapters(graph::zoo::build(llama), {8, 0, {"*attn*"}}).graph, platforms::load("dgx-h100"), "mlperf", "fp8");
  const double narrow = frozen.memory().weights;
  frozen.profile.keeps_quantised_weights = false;
  // Of 3 blocks: four matrices of attention, three of 256 x 64, two norms; embeddings and logits stay as they are.
  CHECK(frozen.memory().weights - narrow == Approx(3 * (4.0 * 64 * 64 + 3 * 256 * 64 + 2 * 64)));
}

TEST_CASE("where an expert's gated rows are weighed, its results are not kept") {
  const std::string moe = "zoo:moe?layers=2&hidden=512&heads=4&kv_heads=4&ffn=1024&seq=512&vocab=100&experts=8&top_k=2&batch=8&capacity=";
  for (const char* capacity : {"100", "400"}) {
    Sample s(moe + capacity, platforms::load("dgx-h100"), "megatron-core");
    s.job.plan.dp = s.job.plan.ep = 8, s.job.micro_batch = 1;
    const double weighed = sample::block_of(s.parts()).kept.all();
    s.profile.weighs_gated_rows = false;
    // Of 512 tokens two results of 512 values of two bytes, and the two weights by which they are multiplied.
    CHECK(sample::block_of(s.parts()).kept.all() - weighed == Approx(512 * 2 * 512 * 2).epsilon(0.01));
  }
}

TEST_CASE("a fused loss keeps no copies of logits in fp32") {
  Sample fused(kSmall, platforms::load("dgx-a100"), "composer");
  const double before = fused.memory().activations;
  fused.profile.logit_bytes_16bit = 10;
  CHECK(fused.memory().activations - before == Approx(64 * 1000 * (10 - 4)));  // logits of 64 tokens
}

TEST_CASE("attention that computes its scores again keeps none, whatever its kernels take") {
  Sample s(kSmall, platforms::load("dgx-a100"), "nemo-launcher");
  const auto parts = s.parts();
  CHECK(!parts.fused_attention);
  CHECK(sample::block_of(parts).kept.attention == 0);
  s.profile.keeps_no_scores = false;
  // 2 sequences, 4 heads, 32 queries and as many keys: what the softmax made, two bytes, and 1.5 times that of what dropout made of it.
  CHECK(sample::block_of(s.parts()).kept.attention == Approx(2 * 4 * 32 * 32 * 2 * 2.5));
}

TEST_CASE("a rectifier leaves what it reads to be written over, a leaky one, too") {
  const auto kept = [](const char* activation) {
    graph::GraphBuilder builder;
    const auto weight = [&](const char* name) {
      return builder.add_stored(name, {DType::F32, {16, 16}}, graph::TensorRole::Parameter, {});
    };
    auto x = builder.add1("MatMul", {builder.add_input("x", {DType::F32, {8, 16}}), weight("first")});
    x = builder.add1("MatMul", {builder.add1(activation, {x}), weight("second")});
    builder.set_outputs({x});
    const Sample s(std::move(builder).build(), platforms::load("dgx-a100"), "pytorch", "fp32");
    double sum = 0;
    for (const auto& part : s.parts().parts) sum += part.kept.all() * part.repeats;
    return sum;
  };
  constexpr double kTensor = 8 * 16 * 4;
  CHECK(kept("Relu") == Approx(2 * kTensor));  // what both products read
  CHECK(kept("LeakyRelu") == Approx(2 * kTensor));
  CHECK(kept("Softplus") == Approx(3 * kTensor));
}

TEST_CASE("an optimizer without moments keeps less") {
  Sample s(kSmall, platforms::load("dgx-a100"), "megatron");
  const double adam = s.memory().optimizer;  // fp32 weights and two moments: 12 bytes
  s.job.recipe.optimizer = "sgd";
  CHECK(s.memory().optimizer == Approx(adam * 8 / 12));  // fp32 weights and a momentum
  s.job.recipe.momentum = false;
  CHECK(s.memory().optimizer == Approx(adam * 4 / 12));
  s.job.recipe.optimizer = "none";
  CHECK(s.memory().optimizer == 0);
}

TEST_CASE("a job of 16 bits alone keeps nothing in 32, and an update of all parameters at once copies their gradients") {
  Sample s(kSmall, platforms::load("dgx-a100"), "transformers");
  const double parameters = 6 * (12.0 * 64 * 64 + 13 * 64) + 1000 * 64 + 32 * 64 + 2 * 64;
  CHECK(s.memory().states() == Approx((2 + 2 + 4) * parameters));  // weight, gradient, two moments
  CHECK(s.memory().update == Approx(2 * parameters));              // a copy of the gradient
  s.job.precision = "amp_bf16";
  CHECK(s.memory().states() == Approx((4 + 4 + 8) * parameters));
}

TEST_CASE("weights that are not trained have no gradient and no moments, and may have 4 bits") {
  Sample s(graph::with_adapters(graph::zoo::build(kSmall), {8, 0, {"*attn*"}}).graph, platforms::load("dgx-a100"), "transformers");
  s.profile.update_copies = 0;
  // Adapters of rank 8 beside matrices of 64 x 192 and 64 x 64 in each of 6 blocks.
  const double trained = 6 * 8.0 * (64 + 192 + 64 + 64), blocks = 6 * (12.0 * 64 * 64 + 13 * 64), others = 1000 * 64 + 32 * 64 + 2 * 64;
  CHECK(s.memory().states() == Approx(2 * (blocks + others) + (2 + 2 + 4) * trained));
  s.job.recipe.frozen_bytes = 0.5;  // of blocks; embeddings and logits stay as they are
  CHECK(s.memory().states() == Approx(0.5 * blocks + 2 * others + (2 + 2 + 4) * trained));
}

TEST_CASE("a loss in one kernel has its gradient where its copy of the logits was") {
  Sample s(kSmall, platforms::load("dgx-a100"), "transformers");
  s.profile.elementwise_fusion = 2;  // so that nothing else changes
  const double before = s.memory().activations;
  s.job.recipe.fused_kernels = true;
  CHECK(before - s.memory().activations == Approx(64 * 1000 * (s.profile.logit_bytes_16bit - 8)));  // of 64 tokens
}

TEST_CASE("a loss in chunks never has all logits") {
  Sample s(kSmall, platforms::load("dgx-a100"), "torchtitan");
  const double before = s.memory().activations;
  s.job.recipe.chunked_loss = true;
  // Of 64 tokens. Then the fullest moment is that of the last block, where gradients of what gelu reads and makes are there at once, and
  // what the norm and the product behind the blocks had kept is gone: their operands of 64 values.
  CHECK(before - s.memory().activations == Approx(64 * 1000 * s.profile.logit_bytes_16bit - (2 * 256 - 2 * 64) * 64 * 2));
}

TEST_CASE("a stage keeps as many micro-batches as its schedule holds") {
  Sample s(kSmall, platforms::load("dgx-a100"), "megatron-core");
  s.job.plan.pp = 3;
  s.job.micro_batches = 8;
  const auto activations = [&](const char* schedule) {
    s.job.plan.schedule = schedule;
    return s.memory().activations;
  };
  // 1F1B holds three micro-batches on the first stage, GPipe all eight.
  CHECK(activations("gpipe") > 2 * activations("1f1b"));
}

TEST_CASE("a played step holds at its fullest moment what the closed form says") {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved"})
    for (const auto recompute : {plan::RecomputeRule::None, plan::RecomputeRule::Full}) {
      Sample s(kSmall, platforms::load("dgx-a100"), "megatron-core");
      s.job.plan.pp = 3;
      s.job.plan.schedule = schedule;
      s.job.plan.interleave = std::string(schedule) == "interleaved" ? 2 : 1;
      s.job.micro_batches = 6;
      s.job.plan.recompute.rule = recompute;
      const auto program = s.ask([&](const StagedStep& step) { return program_of(step, s.model).program; });
      std::int64_t fullest = 0;
      for (const auto& role : program.roles) fullest = std::max(fullest, plan::BytesInUse(program, role).peak());
      const auto memory = s.memory();
      CAPTURE(schedule);
      CHECK(static_cast<double>(fullest) == Approx(memory.states() + memory.activations).epsilon(1e-6));
    }
}

TEST_CASE("gradients that have no buffers come as activations go") {
  Sample s(kSmall, platforms::load("dgx-a100"), "transformers");
  s.profile.update_copies = 0;
  const auto freed = s.memory();
  // When the loss is computed, all activations are there and no gradient.
  CHECK(freed.fullest.gradients == 0);
  CHECK(freed.all() == Approx(freed.weights + freed.optimizer + freed.activations));
  s.job.micro_batches = 2;  // those of the first one are there when the second one's backward pass begins
  CHECK(s.memory().all() == Approx(freed.states() + freed.activations));
  s.job.micro_batches = 1;
  s.job.plan.dp = 2;  // buckets of gradients
  CHECK(s.memory().all() == Approx(freed.states() + freed.activations));
  s.job.plan.dp = 1;
  s.profile.gradient_buffers = true;
  CHECK(s.memory().all() == Approx(freed.states() + freed.activations));
  s.profile.gradient_buffers = false;
  s.profile.update_copies = 4;  // 8 bytes a parameter: more than all activations
  CHECK(s.memory().all() == Approx(freed.states() + s.memory().update));
  // Of 64 tokens 6 blocks keep 16 times the width or so. Without recomputation the last block's backward pass has all of it.
  s.job.recipe.chunked_loss = true;
  CHECK(s.memory().activations < freed.activations);
}

TEST_CASE("a block's backward pass has gradients beside what it keeps") {
  // The product of a gate and what is gated: gradients of both, and of the product; 64 tokens of 256 values of two bytes.
  const std::string llama = "zoo:llama?layers=3&hidden=64&heads=4&kv_heads=4&ffn=256&seq=32&vocab=100&batch=2";
  Sample s(llama, platforms::load("dgx-h100"), "nemo");
  const auto parts = s.parts().parts;
  const auto block = std::ranges::find_if(parts, [](const Part& part) { return part.repeated; });
  REQUIRE(block != parts.end());
  CHECK(block->widest_gradients == Approx(3 * 64 * 256 * 2));
  s.job.recipe.chunked_loss = true;
  // At the last block what stands behind it has let go of what it kept, and what stands before all blocks keeps nothing.
  CHECK(s.memory().activations == Approx(3 * block->kept.all() + 3 * 64 * 256 * 2));
  s.job.plan.recompute.rule = plan::RecomputeRule::Full;  // three inputs, and one block as if it were not computed again
  const double input = 64 * 64 * 2;
  CHECK(s.memory().activations == Approx(2 * input + block->kept.all() + 3 * 64 * 256 * 2));
}

TEST_CASE("a played step without buffers of gradients is as full as the closed form says") {
  for (const double copies : {0.0, 4.0}) {
    Sample s(kSmall, platforms::load("dgx-a100"), "transformers");
    s.profile.update_copies = copies;
    s.job.plan.dp = 2;
    s.job.plan.zero = 3;
    const auto program = s.ask([&](const StagedStep& step) { return program_of(step, s.model).program; });
    const auto memory = s.memory();
    CAPTURE(copies, memory.fullest.gradients);
    CHECK(static_cast<double>(plan::BytesInUse(program, program.roles.front()).peak()) == Approx(memory.all()).epsilon(1e-6));
  }
}

TEST_CASE("nodes one by one keep what their blocks keep") {
  for (const char* precision : {"bf16", "fp8"})
    for (const char* zoo : {kSmall.c_str(), "zoo:llama?layers=4&hidden=64&heads=4&kv_heads=2&ffn=128&seq=32&vocab=500&batch=2"}) {
      const Sample blocks(zoo, platforms::load("dgx-h100"), "megatron-core", precision);
      const FoldedModel nodes(graph::zoo::build(zoo), Grain::Nodes);
      const auto kept = [](const ModelParts& model) {
        double sum = 0;
        for (const auto& part : model.parts) sum += part.kept.all() * part.repeats;
        return sum;
      };
      CAPTURE(zoo, precision);
      CHECK(kept(parts_of(nodes, blocks.job, 0)) == Approx(kept(blocks.parts())));
    }
}

TEST_CASE("chunks of a chain of blocks are cut between blocks, with what is before and behind it as chunks of their own") {
  Sample s(kSmall, platforms::load("dgx-a100"), "megatron-core");
  s.job.plan.pp = 4;
  s.job.plan.schedule = "interleaved";
  s.job.micro_batches = 8;
  CHECK(grain_of(s.model, s.job) == Grain::Blocks);
  const auto activations = [&](int interleave) {
    s.job.plan.interleave = interleave;
    CHECK(grain_of(s.model, s.job) == Grain::Blocks);
    return s.memory().activations;
  };
  // One chunk of a block each, or six blocks and both ends: stage 0 holds as many passes of as little.
  CHECK(activations(2) < 2 * activations(1));
  s.job.plan.recompute.rule = plan::RecomputeRule::Full;
  const double recomputed = s.memory().activations;
  s.job.plan.recompute.rule = plan::RecomputeRule::None;
  CHECK(recomputed < s.memory().activations);
  CHECK_THROWS_AS(activations(5), Refusal);
}

TEST_CASE("blocks that are not computed again keep what they kept") {
  Sample s("zoo:gpt?layers=8&hidden=256&heads=4&seq=128&vocab=100&batch=2", platforms::load("dgx-a100"), "megatron-core");
  const auto activations = [&](const char* value) {
    s.job.plan.recompute = plan::parse_recompute(value);
    return s.memory().activations;
  };
  const double none = activations("none"), full = activations("full"), one = activations("full:1");
  // Every block that is computed again keeps its input alone. The last one gains nothing: at its backward pass all of it is there.
  const double saved = none - one;
  CHECK(saved > 0);
  CHECK(activations("full:3") == Approx(none - 3 * saved));
  CHECK(activations("full:7") == Approx(none - 7 * saved));
  CHECK(activations("full:8") == full);
  CHECK(full == Approx(none - 7 * saved));
  s.job.plan.pp = 2;
  s.job.micro_batches = 4;  // two of them under way on stage 0, whose four blocks keep as much each
  const double staged = activations("none");
  CHECK(staged - activations("full:1") == Approx(2 * saved));
}

TEST_CASE("recomputation needs no more memory, whatever the stage holds") {
  for (const char* zoo : {"zoo:vit?layers=4&hidden=64&heads=4&image=32&patch=8&classes=10&batch=2", kSmall.c_str()})
    for (const int stages : {1, 2, 4}) {
      Sample s(zoo, platforms::load("dgx-a100"), "pytorch");
      s.job.plan.pp = stages;
      s.job.micro_batches = 4;
      std::vector<double> bytes;
      for (const auto kind : {plan::RecomputeRule::None, plan::RecomputeRule::Selective, plan::RecomputeRule::Full}) {
        s.job.plan.recompute.rule = kind;
        bytes.push_back(s.memory().all());
      }
      CAPTURE(zoo, stages);
      CHECK(bytes[1] <= bytes[0] * (1 + 1e-12));
      CHECK(bytes[2] <= bytes[1] * (1 + 1e-12));
    }
}

TEST_CASE("weights that are frozen never need more memory than those that are trained") {
  const std::string experts = "zoo:moe?layers=6&hidden=64&heads=4&kv_heads=2&ffn=128&seq=32&vocab=1000&experts=4&batch=2";
  for (const auto& zoo : {kSmall, experts}) {
    Sample trained(zoo, platforms::load("dgx-a100"), "torchtitan");
    for (const char* glob : {"*.5.*", "*.[12].*", "*.[024].*", "*.*.*", "*embed*", "*.0.*attn*"}) {
      Sample frozen(sample::with_frozen(zoo, glob), platforms::load("dgx-a100"), "torchtitan");
      for (const int stage : {0, 1, 3})
        for (const auto rule : {plan::RecomputeRule::None, plan::RecomputeRule::Selective, plan::RecomputeRule::Full}) {
          const auto bytes = [&](Sample& s) {
            s.job.plan.dp = 8;
            s.job.plan.zero = stage;
            s.job.plan.recompute.rule = rule;
            return s.memory();
          };
          CAPTURE(zoo, glob, stage, static_cast<int>(rule));
          const auto with = bytes(frozen), without = bytes(trained);
          CHECK(with.all() <= without.all() * (1 + 1e-12));
          CHECK(with.gathered <= without.gathered);
        }
    }
  }
}

TEST_CASE("stages that are recomputed as a whole keep their input for every micro-batch and everything for one") {
  Sample s(kSmall, platforms::load("dgx-a100"), "gpipe");
  s.job.plan.pp = 2;
  s.job.plan.schedule = "gpipe";
  s.job.plan.recompute.rule = plan::RecomputeRule::Full;
  std::vector<double> activations;
  for (const int m : {4, 5, 6}) {
    s.job.micro_batches = m;
    activations.push_back(s.memory().activations);
  }
  // the same is added for every further micro-batch: its input of a stage
  CHECK(activations[1] - activations[0] == Approx(activations[2] - activations[1]));
  CHECK(activations[1] > activations[0]);
  CHECK(activations[1] - activations[0] < 0.2 * activations[0]);
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
