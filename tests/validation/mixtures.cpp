// Mixtures of experts and heads of their own width in records: by their numbers, and by their names alone.

#include <sstream>

#include "base/error.hpp"
#include "graph/zoo/zoo.hpp"
#include "tests/catch.hpp"
#include "validation/model.hpp"

namespace rehearsal::validation {
namespace {

RecordModel model(const std::string& text) {
  std::istringstream in(R"({"id": "r", "source": "s", "family": "transformer-moe", "model": )" + text +
                        R"(, "hardware": {"gpu": "H100", "count": 8}, "plan": {"dp": 8}, "measured": {"iteration_time_s": null}})");
  return model_of(read_records(in, "records.jsonl").records.front());
}

std::int64_t parameters(const std::string& text) {
  std::int64_t count = 0;
  const auto graph = graph::zoo::build(zoo_reference(model(text)), 1);
  for (const auto& tensor : graph.tensors())
    if (tensor.role == graph::TensorRole::Parameter) count += graph::element_count(tensor.type.shape);
  return count;
}

const std::string kDeepSeek =
    R"({"name": "model of ours", "family": "moe", "layers": 61, "hidden": 7168, "heads": 128, "kv_heads": 128, "kv_channels": 128, )"
    R"("ffn": 18432, "vocab": 129280, "seq": 4096, "experts": 256, "experts_topk": 8, "moe_ffn": 2048, "shared_experts": 1, )"
    R"("dense_layers": 3)";

// Parameters of the published checkpoints, those of the gate's balance and of further tokens left out (tests/graph/zoo).
TEST_CASE("experts, their width, shared ones and latent attention are taken from a record's numbers") {
  CHECK(parameters(kDeepSeek + R"x(, "attn": "mla (q_lora 1536, kv_lora 512, qk 128+64 rope, v 128)"})x") == 671'026'404'352);
  // Queries from the block's input: 61 * (7168 * 128 * 192 - 1536 * (7168 + 1 + 128 * 192)) more.
  CHECK(parameters(kDeepSeek + R"x(, "attn": "mla (q_lora 0, kv_lora 512, qk 128+64 rope, v 128)"})x") ==
        671'026'404'352 + 61LL * (7168 * 128 * 192 - 1536 * (7168 + 1 + 128 * 192)));
  const std::string mixtral =
      R"({"name": "Mixtral", "family": "moe", "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "kv_channels": 128, "ffn": 14336, )"
      R"("moe_ffn": 14336, "vocab": 32000, "experts": 8, "experts_topk": 2})";
  CHECK(parameters(mixtral) == 46'702'792'704);
  const std::string wide =
      R"({"name": "Llama of ours", "layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "kv_channels": 32, "ffn": 10, "vocab": 11, )"
      R"("tied_embeddings": true, "qkv_bias": true})";
  // 4 heads of 32 beside a hidden size of 64: embedding, last norm, and two blocks: q and o, k and v, biases, norms, feed-forward
  CHECK(parameters(wide) == 11 * 64 + 64 + 2 * (2 * 64 * 128 + 2 * 64 * 64 + 128 + 2 * 64 + 2 * 64 + 3 * 64 * 10));
}

TEST_CASE("mixtures of experts are known by name") {
  CHECK(parameters(R"({"name": "DeepSeekV3"})") == 671'026'404'352);
  CHECK(parameters(R"x({"name": "DeepSeekV3 (w/ MTP)"})x") == 682'636'472'320);
  CHECK(parameters(R"x({"name": "Qwen3_30B_a3B (tokendrop)"})x") == 30'532'122'624);
  CHECK(parameters(R"({"name": "Qwen3_235B_a22B"})") == 235'093'634'560);
  CHECK(parameters(R"({"name": "Mixtral-8x22B"})") == 140'620'634'112);
  CHECK(model(R"({"name": "GPT OSS 120B"})").values.at("head_dim") == 64);
  // Another shape under a known name is its own model.
  CHECK_FALSE(model(R"({"name": "Qwen3-30B of ours", "layers": 2, "hidden": 64, "heads": 2, "family": "moe"})").values.contains("experts"));
}

TEST_CASE("decoders with state-space layers are known by name, and refused where they are not") {
  CHECK(parameters(R"({"name": "Nemotron_3_Nano", "family": "hybrid-mamba-moe", "params": 30e9, "seq": 8192})") == 31'577'937'344);
  CHECK(parameters(R"({"name": "Nemotron_3_Super", "family": "hybrid-mamba-moe", "seq": 8192})") == 120'668'687'360);
  CHECK(model(R"({"name": "Nemotron_3_Nano", "seq": 4096})").values.at("seq") == 4096);
  CHECK_THROWS_WITH(model(R"({"name": "Bamba-9B", "family": "hybrid-mamba", "params": 9e9})"),
                    contains("model.name") && contains("bamba-9b"));
}

TEST_CASE("more chosen experts than there are make no model") {
  CHECK_THROWS_WITH(model(R"({"name": "m", "family": "moe", "layers": 2, "hidden": 64, "experts": 4, "experts_topk": 5})"),
                    contains("model.experts_topk") && contains("experts=4"));
  CHECK_THROWS_AS(model(R"({"name": "m", "family": "moe", "layers": 2, "hidden": 64, "experts": 4, "experts_topk": 0})"), Refusal);
}

}  // namespace
}  // namespace rehearsal::validation
