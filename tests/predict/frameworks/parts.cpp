// A model cut into parts, and what of it a rank has.

#include "base/error.hpp"
#include "graph/repeated_spans.hpp"
#include "tests/catch.hpp"
#include "tests/predict/frameworks/sample.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using costmodel::CollectiveKind;
using sample::block_of;
using sample::Sample;

const std::string kSmall = "zoo:gpt?layers=6&hidden=64&heads=4&seq=32&vocab=1000&batch=2";

TEST_CASE("the blocks of a transformer are one span that repeats") {
  const auto graph = graph::zoo::build(kSmall);
  int repeated = 0;
  std::size_t covered = 0;
  for (const auto& span : repeated_spans(graph)) {
    repeated = std::max(repeated, span.repeats);
    CHECK(span.first == covered);
    covered += span.length * static_cast<std::size_t>(span.repeats);
  }
  CHECK(repeated == 6);
  CHECK(covered == graph.nodes().size());
}

TEST_CASE("blocks of which other weights are frozen are spans of one chain") {
  const auto chain = [](const char* glob) {
    std::vector<int> repeats;
    for (const auto& span : repeated_spans(sample::with_frozen(kSmall, glob)))
      if (span.chain > 1) {
        CHECK(span.chain == 6);
        repeats.push_back(span.repeats);
      }
    return repeats;
  };
  CHECK(chain("none") == std::vector{6});
  CHECK(chain("h.*") == std::vector{6});
  CHECK(chain("h.5.*") == std::vector{5, 1});
  CHECK(chain("h.[12].*") == std::vector{1, 2, 3});
  CHECK(chain("h.[024].*") == std::vector{1, 1, 1, 1, 1, 1});
}

TEST_CASE("long blocks of two kinds in turn are one span that repeats") {
  // Behind its first two blocks, which are others, attention looks at few and at many tokens in turn: three times both.
  const auto graph = graph::zoo::build(
      "zoo:deepseek-v4?layers=8&hidden=256&heads=4&head_dim=64&rope_dim=16&q_lora=64&o_groups=4&o_lora=64&experts=8&top_k=2&moe_ffn=256&"
      "vocab=100&batch=1&seq=2048&index_heads=2&index_dim=16&index_top=64&hash_layers=0");
  const auto spans = repeated_spans(graph);
  const auto chain =
      std::ranges::max_element(spans, {}, [](const auto& s) { return s.repeats > 1 ? s.length * static_cast<std::size_t>(s.repeats) : 0; });
  CHECK(chain->repeats == 3);
  CHECK(chain->length > 400);
}

TEST_CASE("a folded model has two blocks of a chain, and every node of a block stands for its like") {
  const FoldedModel folded(graph::zoo::build(kSmall), Grain::Blocks);
  const auto& whole = folded.whole();
  for (std::size_t s = 0; s < folded.spans().size(); ++s)
    for (std::size_t offset = 0; offset < folded.spans()[s].length; ++offset) {
      const auto& original = whole.nodes()[folded.spans()[s].first + offset];
      const auto& shown = folded.graph().nodes()[folded.node(s, offset)];
      CHECK(original.op == shown.op);
      CHECK(whole[original.outputs.front()].type == folded.graph()[shown.outputs.front()].type);
    }
  // Six blocks of the model, two of the folded one: four blocks fewer.
  std::size_t block = 0;
  for (const auto& span : folded.spans())
    if (span.repeats == 6) block = span.length;
  CHECK(folded.graph().nodes().size() == whole.nodes().size() - 4 * block);
  CHECK(folded.batch() == 2);
}

TEST_CASE("blocks without experts and those with them are two spans, and latent attention is an attention") {
  const auto whole = graph::zoo::build(
      "zoo:moe?layers=8&hidden=64&heads=4&kv_heads=0&ffn=128&moe_ffn=32&seq=32&vocab=100&experts=4&shared_experts=1&dense_layers=3&gate=1&"
      "kv_lora=16&q_lora=24&nope_dim=16&rope_dim=8&v_dim=16&batch=2");
  const FoldedModel folded(whole, Grain::Blocks);
  std::vector<int> repeated;
  for (const auto& span : folded.spans())
    if (span.repeats > 1) repeated.push_back(span.repeats);
  CHECK(repeated == std::vector{3, 5});
  // Two of the three, two of the five.
  REQUIRE(folded.flow().cores().size() == 4);
  for (const auto& core : folded.flow().cores()) CHECK(core.causal);
}

TEST_CASE("a fused attention computes the pairs in its window") {
  const std::string model = "zoo:llama?layers=2&hidden=512&heads=4&ffn=512&vocab=100&batch=8";
  const auto work = [&](const std::string& more) {
    return sample::work_of(
        Sample(model + (more.find("seq") == std::string::npos ? "&seq=512" : "") + more, platforms::load("dgx-h100"), "megatron-core")
            .parts(),
        costmodel::RateKind::FlashAttention);
  };
  // 2 layers of 8 samples' 4 heads, queries and values of 128. Of 512 keys 128 and, to the first queries, fewer: 128 - 128^2 / (2 * 512) =
  // 112 instead of 256.
  const double whole = sample::attention_work({8 * 4, 512, 512, 256, 2 * 128}),
               band = sample::attention_work({8 * 4, 512, 128, 112, 2 * 128});
  CHECK(work("") == Approx(2 * whole));
  CHECK(work("&window=128") == Approx(2 * band));
  CHECK(work("&window=128&window_every=2") == Approx(whole + band));
  CHECK(work("&window=512") == work(""));
  // a mask that is too large to be stored
  CHECK(work("&window=128&seq=8192") == Approx(2 * sample::attention_work({8 * 4, 8192, 128, 128 - 1, 2 * 128})));
}

TEST_CASE("what counts as computed of attention are the pairs in a window and in a packed document") {
  const auto computed = [](const std::string& more, double document) {
    Sample s("zoo:llama?layers=2&hidden=512&heads=4&ffn=512&vocab=100&batch=8&seq=512" + more, platforms::load("dgx-h100"),
             "megatron-core");
    s.job.recipe.attention_window = document;
    double flops = 0;
    for (const auto& part : s.parts().parts) flops += part.computed_flops * part.repeats;
    return flops;
  };
  // Of a sample, 2 layers: two products forward and twice as many backward, of 4 heads, 512 queries and 128 numbers with each key.
  const double of_a_key = 2 * 6 * 2.0 * 4 * 512 * 128;
  const double whole = computed("", 0);
  CHECK(whole - computed("&window=128", 0) == Approx(of_a_key * (512 - 128)));
  CHECK(whole - computed("", 64) == Approx(of_a_key * (512 - 64)));
  CHECK(whole - computed("&window=128", 64) == Approx(of_a_key * (512 - 64)));
  CHECK(computed("&window=512", 0) == whole);
}

TEST_CASE("an attention with scores that no key has is an attention") {
  const Flow flow(
      graph::zoo::build("zoo:moe?layers=3&hidden=64&heads=4&kv_heads=2&ffn=32&seq=32&vocab=100&experts=2&sinks=1&window=8&batch=2"));
  REQUIRE(flow.cores().size() == 3);
  for (const auto& core : flow.cores()) CHECK(core.causal);
}

TEST_CASE("a fused attention computes scores of its queries' width and results of its values'") {
  const std::string model =
      "zoo:moe?layers=2&hidden=512&heads=4&kv_heads=0&ffn=512&seq=512&vocab=100&experts=2&kv_lora=64&batch=8&nope_dim=128&rope_dim=64&v_"
      "dim=";
  const auto work = [&](const char* v) {
    return sample::work_of(Sample(model + v, platforms::load("dgx-h100"), "megatron-core").parts(), costmodel::RateKind::FlashAttention);
  };
  CHECK(work("128") == Approx(2 * sample::attention_work({8 * 4, 512, 512, 256, 192 + 128})));
  CHECK(work("192") == Approx(2 * sample::attention_work({8 * 4, 512, 512, 256, 192 + 192})));
}

TEST_CASE("what is computed of a convolution is what its transform leaves of it, where there is one") {
  // The first convolution of VGG-11 has 3 channels, too few for a transform. Of the other seven, 3 x 3 at stride 1, those of 112, 56 and 28
  // pixels are transformed tile by tile of 4 x 4 and keep 1 / 2.7, those of 14 pixels of 2 x 2 and keep 1 / 2.25.
  const auto counted = [](const char* dtype) {
    std::pair<double, double> all;
    for (const auto& part : Sample("zoo:vgg11?batch=8", platforms::load("dgx-a100"), "pytorch", dtype).parts().parts)
      all.first += part.flops * part.repeats, all.second += part.computed_flops * part.repeats;
    return all;
  };
  const auto convolution = [](double pixels, double in, double out) { return 3 * (2 * 9 * in + 1) * pixels * pixels * out; };  // and a bias
  const double large = convolution(112, 64, 128) + convolution(56, 128, 256) + convolution(56, 256, 256) + convolution(28, 256, 512) +
                       convolution(28, 512, 512),
               small = 2 * convolution(14, 512, 512);
  const auto [whole, computed] = counted("f32");
  CHECK(whole - computed == Approx(large * (1 - 1 / 2.7) + small * (1 - 1 / 2.25)).epsilon(1e-9));
  const auto [of_matrix_units, all_of_them] = counted("bf16");
  CHECK(of_matrix_units == Approx(whole));
  CHECK(all_of_them == Approx(of_matrix_units));
}

TEST_CASE("a model without repetitions is not folded") {
  const auto whole = graph::zoo::build("zoo:vgg11?image=32&classes=10&batch=4");
  const FoldedModel folded(whole, Grain::Nodes);
  CHECK(folded.graph().nodes().size() == whole.nodes().size());
  CHECK(folded.spans().size() == whole.nodes().size());
}

TEST_CASE("tensor parallelism splits what Megatron splits") {
  Sample s(kSmall, platforms::load("dgx-a100"), "megatron");
  s.job.plan.tp = 2;
  const auto split = s.parts();
  // h = 64, ffn = 256, halves of both products and of the biases of split results; norms and the other biases whole:
  // 2*2*64 + (64*192 + 192)/2 + 64*64/2 + 64 + (64*256 + 256)/2 + 256*64/2 + 64 = 25184.
  CHECK(block_of(split).weights.all == Approx(25184));
  for (const auto* pass : {&block_of(split).forward, &block_of(split).backward}) {
    int sums = 0;
    for (const auto& step : *pass)
      if (step.exchange) {
        ++sums;
        CHECK(step.exchange->kind == CollectiveKind::AllReduce);
        CHECK(step.exchange->bytes == Approx(2 * 32 * 64 * 2));  // samples, tokens, features, 16 bits
      }
    CHECK(sums == 2);  // of attention and of the MLP
  }
  s.job.plan.tp = 1;
  // 12 h^2 + 13 h of a block.
  CHECK(block_of(s.parts()).weights.all == Approx(12 * 64 * 64 + 13 * 64));
}

TEST_CASE("sequence parallelism gathers before the products and scatters behind them") {
  Sample s(kSmall, platforms::load("dgx-a100"), "megatron-core");
  s.job.plan.tp = 2;
  const double without = block_of(s.parts()).kept.all();
  s.job.plan.sequence_parallel = true;
  const auto parts = s.parts();
  std::map<CollectiveKind, int> forward, backward;
  for (const auto& step : block_of(parts).forward)
    if (step.exchange) ++forward[step.exchange->kind];
  for (const auto& step : block_of(parts).backward)
    if (step.exchange) ++backward[step.exchange->kind];
  CHECK(forward == std::map<CollectiveKind, int>{{CollectiveKind::AllGather, 2}, {CollectiveKind::ReduceScatter, 2}});
  CHECK(backward == forward);
  CHECK(block_of(parts).kept.all() < without);
}

TEST_CASE("a block keeps what Korthikanti et al. count") {
  const Sample s("zoo:gpt?layers=4&hidden=1024&heads=16&seq=1024&vocab=1000&batch=1", platforms::load("dgx-a100"), "megatron");
  // s·b·h·(34 + 5·a·s/h), equation 1 of "Reducing activation recomputation in large transformer models".
  const double expected = 1024.0 * 1024 * (34 + 5.0 * 16 * 1024 / 1024);
  CHECK(block_of(s.parts()).kept.all() == Approx(expected).epsilon(0.04));
}

TEST_CASE("experts that are spread over ranks do as much work as before, on other tokens") {
  Sample s("zoo:moe?layers=2&hidden=512&heads=4&kv_heads=4&ffn=1024&seq=1024&vocab=100&experts=8&top_k=2&capacity=100&batch=8",
           platforms::load("dgx-h100"), "megatron-core");
  s.job.micro_batch = 2;
  s.job.plan.dp = 4;
  const auto whole = s.parts();
  s.job.plan.ep = 4;
  const auto spread = s.parts();
  CHECK(sample::work_of(spread, costmodel::RateKind::Matmul) ==
        Approx(sample::work_of(whole, costmodel::RateKind::Matmul)).epsilon(0.25));  // but for the tiles
  std::vector<double> sent;
  for (const auto& part : spread.parts)
    for (const auto& step : part.forward)
      if (step.exchange && step.exchange->axis == ExchangeAxis::Expert) sent.push_back(step.exchange->bytes);
  REQUIRE(!sent.empty());
  // two samples, two experts a token, 512 features of 16 bits
  for (const double bytes : sent) CHECK(bytes == Approx(2.0 * 1024 * 2 * 512 * 2).epsilon(0.05));
  // of 3·512·1024 weights in each of 8 experts, a rank has those of two
  CHECK(block_of(spread).expert_weights.all == Approx(3.0 * 512 * 1024 * 2));
}

TEST_CASE("stages of one chain of blocks are even, what stands before it is the first one's, what stands behind it the last one's") {
  Sample s(kSmall, platforms::load("dgx-a100"), "megatron-core");
  s.job.plan.pp = 3;
  const auto parts = s.parts();
  const auto chunks = s.ask([](const StagedStep& step) { return std::vector(step.chunks.begin(), step.chunks.end()); });
  REQUIRE(chunks.size() == 3);
  for (const auto& chunk : chunks) {
    int blocks = 0;
    for (const auto& piece : chunk)
      if (parts.parts[piece.part].repeated) blocks += piece.count;
    CHECK(blocks == 2);
  }
  CHECK(weights_of(parts, chunks.front()).all > weights_of(parts, chunks[1]).all);  // the embedding
}

TEST_CASE("blocks that cannot be split evenly are cut where the costliest chunk is cheapest") {
  Sample s(kSmall, platforms::load("dgx-a100"), "megatron-core");
  s.job.plan.pp = 4;
  const auto parts = s.parts();
  const auto chunks = s.ask([](const StagedStep& step) { return std::vector(step.chunks.begin(), step.chunks.end()); });
  REQUIRE(chunks.size() == 4);
  int all = 0;
  for (const auto& chunk : chunks) {
    int blocks = 0;
    for (const auto& piece : chunk)
      if (parts.parts[piece.part].repeated) blocks += piece.count;
    CHECK(blocks <= 2);  // six blocks on four stages
    all += blocks;
  }
  CHECK(all == 6);
  s.job.plan.pp = 100;
  CHECK_THROWS_AS(s.time(), Refusal);
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
