// Small decoders with what each published one does otherwise, counted by hand.

#include "base/error.hpp"
#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/graph/zoo/counts.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;
using zoo::flops_of;
using zoo::parameters_of;

TEST_CASE("heads of a GPT may share keys and values") {
  const auto parameters = [](const std::string& more) {
    return parameters_of(zoo::build("gpt?layers=2&hidden=16&heads=4&seq=6&vocab=24&batch=1" + more));
  };
  // One head of keys and one of values, 4 wide, instead of four each: of two layers 16 + 1 times 2 * (16 - 4) fewer.
  CHECK(parameters("") - parameters("&kv_heads=1") == 2 * 17 * 24);
  CHECK(parameters("&kv_heads=4") == parameters(""));
  CHECK_THROWS_AS(zoo::build("gpt?layers=1&hidden=16&heads=4&kv_heads=3&seq=6&vocab=24&batch=1"), BadInput);
}

TEST_CASE("a mixture of experts counts by hand") {
  // Embedding and head 2 * 11 * 16; a block's norms 2 * 16, the last one 16. Attention of 4 heads of 6: 16 * 24 * 2 + 16 * 12 * 2, norms
  // of heads 2 * 6, biases 24 + 2 * 12. First block 3 * 16 * 20, second 3 experts and 2 shared ones of 3 * 16 * 10, gate 16 * 3.
  const std::string small = "moe?layers=2&hidden=16&heads=4&kv_heads=2&head_dim=6&seq=8&vocab=11&experts=3&ffn=20&moe_ffn=10";
  const std::int64_t attention = 768 + 384, ends = 2 * 11 * 16 + 16 + 2 * 32;
  CHECK(parameters_of(zoo::build(small + "&shared_experts=2&dense_layers=1")) == ends + 2 * attention + 960 + 5 * 480 + 48);
  CHECK(parameters_of(zoo::build(small + "&qk_norm=1&qkv_bias=1&o_bias=1&moe_every=2")) ==
        ends + 2 * (attention + 12 + 48 + 16) + 960 + 3 * 480 + 48);
  // norms over 4 heads of 6 and over 2; without weights
  CHECK(parameters_of(zoo::build(small + "&qk_norm=2&dense_layers=2")) == ends + 2 * (attention + 24 + 12 + 960));
  CHECK(parameters_of(zoo::build(small + "&qk_norm=3&nope_every=2&dense_layers=2")) == ends + 2 * (attention + 960));
  // biases of the gate 3, of an expert 10 + 10 + 16
  CHECK(parameters_of(zoo::build(small + "&expert_bias=1")) == ends + 2 * (attention + 3 * 480 + 48 + 3 + 3 * 36));
  // Queries 16 * 4 * (5 + 2), keys and values 16 * (8 + 2) + 8 + 8 * 4 * (5 + 3), result 4 * 3 * 16; queries from 12: 16 * 12 + 12 + 12 *
  // 28
  const std::string latent =
      "moe?layers=1&hidden=16&heads=4&kv_heads=0&seq=8&vocab=11&experts=3&ffn=10&kv_lora=8&nope_dim=5&rope_dim=2&v_dim=3";
  const std::int64_t rest = 2 * 11 * 16 + 16 + 32 + 3 * 480 + 48 + 160 + 8 + 256 + 192;
  CHECK(parameters_of(zoo::build(latent)) == rest + 448);
  CHECK(parameters_of(zoo::build(latent + "&q_lora=12")) == rest + 192 + 12 + 336);
}

TEST_CASE("a state-space layer counts by hand") {
  // Embedding and head 2 * 11 * 16, last norm; a block's norms 2 * 16. Four heads of 3, two groups, state 5: product to 2 * 12 + 2 * 10 +
  // 4, convolution of 12 + 20 channels by 4 and its biases, steps, rates and skips 3 * 4, norm 12, product back 12 * 16; feed-forward 2 *
  // 16 * 7
  const std::string small =
      "hybrid?blocks=2&hidden=16&heads=4&kv_heads=2&head_dim=6&ssm_heads=4&ssm_head_dim=3&ssm_state=5&ssm_groups=2&"
      "chunk=4&seq=8&vocab=11&ffn=7";
  const std::int64_t layer = 16 * 48 + 32 * 5 + 12 + 12 + 192, ends = 352 + 16 + 2 * 32;
  CHECK(parameters_of(zoo::build(small + "&experts=0")) == ends + 2 * (layer + 224));
  // one attention and its norm: 2 * 16 * 24 + 2 * 16 * 12 + 16
  CHECK(parameters_of(zoo::build(small + "&experts=0&attention_at=2")) == ends + 2 * (layer + 224) + 1152 + 16);
  // three experts of 2 * 16 * 7 and a gate 16 * 3; a shared one of 2 * 16 * 9; experts from 10 features, which 2 * 16 * 10 lead to and back
  CHECK(parameters_of(zoo::build(small + "&experts=3&top_k=2&shared_ffn=0")) == ends + 2 * (layer + 3 * 224 + 48));
  CHECK(parameters_of(zoo::build(small + "&experts=3&top_k=2&shared_ffn=9&latent=10")) == ends + 2 * (layer + 3 * 140 + 48 + 288 + 320));
  CHECK_THROWS_WITH(zoo::build("hybrid?seq=9&chunk=4"), contains("seq=9") && contains("chunk=4"));
  CHECK_THROWS_WITH(zoo::build("hybrid?ssm_heads=4&ssm_groups=3"), contains("ssm_heads=4") && contains("ssm_groups=3"));
  CHECK_THROWS_WITH(zoo::build(small + "&attention_at=4"), contains("attention_at=4") && contains("blocks=2"));
}

TEST_CASE("the products of latent attention count by hand") {
  // One block, 8 tokens, 4 heads of 5 + 2 features and values of 3, three experts of which every token has one with room for 8 / 3 -> 3:
  // weights 2 FLOPs a token (attention 448 + 160 + 256 + 192, gate 48, head 16 * 11), experts 2 * 3 * 3 * 480, scores and mixing 2 * 8 * 8
  // * 4 * (7 + 3)
  const Graph graph = zoo::build(
      "moe?layers=1&hidden=16&heads=4&kv_heads=0&seq=8&vocab=11&experts=3&top_k=1&capacity=100&ffn=10&kv_lora=8&nope_dim=5&rope_dim=2&v_"
      "dim=3");
  CHECK(flops_of(graph, {"MatMul"}) == 2.0 * 8 * (448 + 160 + 256 + 192 + 48 + 176) + 2.0 * 9 * 480 + 2.0 * 64 * 4 * 10);
}

TEST_CASE("a gated delta rule counts by hand") {
  // Embedding and head 2 * 11 * 16, last norm; a block's norms 2 * 16, feed-forward 3 * 16 * 20. Attention of 4 heads of 8, 2 of keys and
  // values, a gate for every feature: 16 * (64 + 2 * 16) + 32 * 16. Delta rule of 2 heads of keys of 5 and 4 of values of 3: product to 2 *
  // 10 + 2 * 12 + 2 * 4, convolution of 32 channels by 4, decays and biases 2 * 4, norm 3, product back 12 * 16.
  const auto of = [](const std::string& sizes) {
    return zoo::build(
        "llama?hidden=16&heads=4&kv_heads=2&head_dim=8&ffn=20&vocab=11&attn_gate=1&full_every=2&delta_key_heads=2&delta_heads=4&"
        "delta_key_dim=5&delta_dim=3&" +
        sizes);
  };
  constexpr std::int64_t kEnds = 352 + 16 + 2 * 32 + 2 * 960, kFull = 16 * 96 + 512, kDelta = 16 * 52 + 128 + 8 + 3 + 192;
  const Graph graph = of("layers=2&seq=8&chunk=4");
  CHECK(parameters_of(graph) == kEnds + kFull + kDelta);
  CHECK(parameters_of(of("layers=3&seq=8&chunk=4")) == kEnds + 32 + 960 + kFull + 2 * kDelta);
  // Products of 8 tokens with weights; scores and mixing of the attention 4 * 8 * 8 * 4 * 8; of the rule, for each of 2 chunks of 4 tokens,
  // keys by keys and queries by keys of 2 heads 2 * 2 * 16 * 2 * 5, mixing and reading the state of 4 heads 2 * 16 * 4 * 3 + 2 * 4 * 5 * 3
  // * 4.
  const double weights = 2.0 * 8 * (kFull + 2 * 960 + 16 * 52 + 192 + 176);
  CHECK(flops_of(graph, {"MatMul"}) == weights + 4.0 * 64 * 4 * 8 + 2 * (2.0 * 2 * 16 * 2 * 5 + 2.0 * 16 * 4 * 3 + 2.0 * 4 * 5 * 3 * 4));
  // Triangles of 4 tokens by 5 + 3 columns, 3 multiply-adds for two rows on average; states of 5 by 3 read and written by 4 tokens.
  CHECK(flops_of(graph, {"TriangularSolve"}) == 2 * 4 * 4.0 * 3 * (5 + 3));
  CHECK(flops_of(graph, {"DeltaScan"}) == 2 * 4 * 4.0 * 4 * 5 * 3);
  // In one chunk no state is handed on.
  CHECK(flops_of(of("layers=2&seq=8&chunk=8"), {"DeltaScan"}) == 0);
  CHECK_THROWS_WITH(of("layers=2&seq=9&chunk=4"), contains("seq=9") && contains("chunk=4"));
  CHECK_THROWS_WITH(zoo::build("llama?full_every=2&delta_heads=4&delta_key_heads=3"),
                    contains("delta_heads=4") && contains("delta_key_heads=3"));
}

TEST_CASE("layers with a window may have heads of their own, which count by hand") {
  // Blocks 0 and 3 see all tokens: queries 4 * 6, keys 6, values 5 of one head, back 4 * 5; blocks 1 and 2 have two heads of keys and
  // values, and a score more of every head.
  const std::string windows =
      "moe?layers=4&hidden=16&heads=4&kv_heads=1&head_dim=6&value_dim=5&seq=8&vocab=11&dense_layers=4&ffn=20&window=3&window_every=4&"
      "window_first=1&window_kv_heads=2&sinks=2&rotary_dim=2";
  constexpr std::int64_t kRest = 352 + 16 + 4 * (32 + 960);
  CHECK(parameters_of(zoo::build(windows)) == kRest + 2 * 16 * (24 + 6 + 5 + 20) + 2 * (16 * (24 + 12 + 10 + 20) + 4));
  // Blocks 1 and 3 see all: 4 heads, else 6, each with a gate.
  const std::string heads =
      "moe?hidden=16&heads=4&kv_heads=2&head_dim=6&seq=8&vocab=11&dense_layers=4&ffn=20&window=3&window_every=2&window_heads=6&attn_gate=2&"
      "layers=";
  CHECK(parameters_of(zoo::build(heads + "4")) == kRest + 2 * 16 * (24 + 24 + 24 + 4) + 2 * 16 * (36 + 24 + 36 + 6));
  // the same, one block earlier
  CHECK(parameters_of(zoo::build(heads + "3&window_offset=1")) == kRest - 992 + 2 * 16 * 76 + 16 * 102);
  CHECK_THROWS_WITH(zoo::build(heads + "4&window_kv_heads=4"), contains("window_heads=6") && contains("window_kv_heads=4"));
  // Keys are values in block 1, and a head has 8 features there, 6 in block 0; norms of queries and keys.
  const std::string same =
      "llama?layers=2&hidden=16&heads=4&kv_heads=1&head_dim=8&ffn=20&seq=8&vocab=11&kv_same=1&qk_norm=1&v_norm=1&rotary_dim=2&rotary_whole="
      "1&"
      "window=3&window_every=2&window_head_dim=6&window_kv_heads=2&window_rotary_dim=6";
  CHECK(parameters_of(zoo::build(same)) == 352 + 16 + 2 * 992 + 16 * (24 + 12 + 12 + 24) + 12 + 16 * (32 + 8 + 32) + 16);
}

TEST_CASE("experts beside a feed-forward layer, gates of shared ones, and blocks that an index chooses count by hand") {
  const std::string small = "moe?layers=1&hidden=16&heads=4&kv_heads=2&head_dim=6&seq=8&vocab=11&experts=3&ffn=20&moe_ffn=10";
  constexpr std::int64_t kRest = 352 + 16 + 32 + 16 * (24 + 12 + 12 + 24) + 3 * 480 + 48;
  CHECK(parameters_of(zoo::build(small)) == kRest);
  CHECK(parameters_of(zoo::build(small + "&shared_experts=2&shared_gate=1")) == kRest + 960 + 16);
  // Both have norms before and behind, of which the first of the feed-forward layer is there already; the gate has one, and three factors.
  CHECK(parameters_of(zoo::build(small + "&dense_beside=1")) == kRest + 960 + 3 * 16 + 16 + 3);
  // Two heads of 8 features and their one key, and two norms; blocks of 3 tokens, of which a query sees two.
  const Graph chosen = zoo::build(small + "&index_heads=2&index_dim=8&index_block=3&index_top=2");
  CHECK(parameters_of(chosen) == kRest + 16 * 16 + 16 * 8 + 16);
  CHECK(flops_of(chosen, {"MatMul"}) == flops_of(zoo::build(small), {"MatMul"}) + 2.0 * 8 * 16 * 24 + 2.0 * 64 * 2 * 8);
  CHECK_THROWS_WITH(zoo::build(small + "&index_heads=3&index_dim=8&index_block=3"), contains("index_heads=3") && contains("kv_heads=2"));
}

TEST_CASE("an index that chooses tokens has weights that are not trained, and products that count by hand") {
  const std::string latent =
      "moe?layers=4&hidden=16&heads=4&kv_heads=0&seq=8&vocab=11&experts=3&ffn=10&kv_lora=8&q_lora=12&nope_dim=5&rope_dim=2&v_dim=3";
  const Graph without = zoo::build(latent), all = zoo::build(latent + "&index_heads=3&index_dim=6&index_top=2");
  // 12 * 3 * 6 for queries, 16 * 6 and a norm of 2 * 6 for keys, 16 * 3 for the weights of heads
  constexpr std::int64_t kIndex = 216 + 96 + 12 + 48;
  CHECK(parameters_of(all) == parameters_of(without) + 4 * kIndex);
  CHECK(build_training_graph(with_initial_values(all), {}).parameters.size() ==
        build_training_graph(with_initial_values(without), {}).parameters.size());
  // 8 tokens by every weight but the norm's, and 3 heads' scores of 8 by 8 tokens and 6 features
  CHECK(flops_of(all, {"MatMul"}) == flops_of(without, {"MatMul"}) + 4 * (2.0 * 8 * (216 + 96 + 48) + 2.0 * 3 * 64 * 6));
  // The first block chooses by itself, then every second one behind it: blocks 0 and 2.
  CHECK(parameters_of(zoo::build(latent + "&index_heads=3&index_dim=6&index_first=1&index_every=2")) ==
        parameters_of(without) + 2 * kIndex);
  CHECK_THROWS_WITH(zoo::build("moe?layers=1&index_heads=3"), contains("index_heads=3") && contains("kv_lora"));
  CHECK_THROWS_WITH(zoo::build(latent + "&index_heads=3&index_dim=1"), contains("index_dim"));
  CHECK_THROWS_WITH(zoo::build(latent + "&index_heads=3&window=4"), contains("window"));
}

TEST_CASE("compressed attention and streams of the residual count by hand") {
  const auto of = [](const std::string& sizes) {
    return zoo::build(
        "deepseek-v4?hidden=16&streams=2&sinkhorn=3&heads=4&head_dim=8&rope_dim=2&q_lora=12&o_groups=2&o_lora=5&window=3&few=2&"
        "many=4&index_heads=3&index_dim=6&index_top=2&experts=3&top_k=2&moe_ffn=10&hash_layers=1&seq=8&vocab=11&" +
        sizes);
  };
  // Embedding and head, a norm; one stream of two of 16: 2 numbers from 32, their bases and a scale. A block's norms, experts of 3 * 16 *
  // 10, one shared, a gate; before both halves 2 + 2 + 4 numbers from 32, their bases and 3 scales.
  constexpr std::int64_t kEnds = 2 * 11 * 16 + 16 + 2 * 32 + 2 + 1, kBlock = 2 * 16 + 4 * 480 + 48 + 2 * (8 * 32 + 8 + 3);
  // Queries 16 to 12, norm, 12 to 4 * 8; keys 16 to 8 and a norm; a score of each head; two groups of 16 to 5, and 10 back to 16.
  constexpr std::int64_t kAttention = 16 * 12 + 12 + 12 * 32 + 16 * 8 + 8 + 4 + 2 * 16 * 5 + 10 * 16;
  // Of many: values and scores 16 to 8, places 4 by 8, a norm. Of few twice as wide, with places 2 by 16; the index the same with 6,
  // queries 12 to 3 * 6, and weights of its heads.
  constexpr std::int64_t kMany = 2 * 16 * 8 + 32 + 8, kFew = 2 * 16 * 16 + 32 + 8;
  constexpr std::int64_t kIndex = 2 * 16 * 12 + 24 + 6 + 12 * 18 + 16 * 3;
  CHECK(parameters_of(of("layers=2")) == kEnds + 2 * (kBlock + kAttention));
  CHECK(parameters_of(of("layers=2&first_many=1")) == kEnds + 2 * (kBlock + kAttention + kMany));
  const Graph all = of("layers=4");
  CHECK(parameters_of(all) == kEnds + 4 * (kBlock + kAttention) + kMany + kFew + kIndex);
  CHECK(build_training_graph(with_initial_values(all), {}).parameters.size() ==
        build_training_graph(with_initial_values(of("layers=2")), {}).parameters.size() + 2 * 24 + 4 +
            4);  // two blocks of 24 weights, and four of each compression; none of the index
  // Products of block 2 without the experts': 8 tokens by every weight but norms, places, scales and scores; 4 heads' scores of and mixing
  // by 8 + 4 keys of 8; the index's 3 heads by 4 keys of 6; twice 2 by 2 times 2 by 16 of every token.
  const double weights = kAttention - 12 - 8 - 4 + 2 * 16 * 16 + 2 * 16 * 12 + 12 * 18 + 48 + 480 + 48 + 2 * 8 * 32;
  const double few = 2.0 * 8 * weights + 2 * 2.0 * 4 * 8 * 12 * 8 + 2.0 * 3 * 8 * 4 * 6 + 2 * 2.0 * 8 * 2 * 2 * 16;
  const double experts = 2.0 * 3 * 480 * 7;  // room for 1.25 * 2 / 3 of 8 tokens
  CHECK(flops_of(of("layers=3"), {"MatMul"}) == flops_of(of("layers=2"), {"MatMul"}) + few + experts);
  CHECK_THROWS_WITH(zoo::build("deepseek-v4?seq=130"), contains("seq=130") && contains("few=4"));
  CHECK_THROWS_WITH(zoo::build("deepseek-v4?rope_dim=7"), contains("rope_dim=7"));
  CHECK_THROWS_WITH(zoo::build("deepseek-v4?o_groups=7"), contains("heads=64") && contains("o_groups=7"));
  CHECK_THROWS_WITH(zoo::build("deepseek-v4?experts=2"), contains("top_k=6") && contains("experts=2"));
}
