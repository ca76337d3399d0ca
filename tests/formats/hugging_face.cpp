// Configuration files of Hugging Face: the models that they describe, and what is wrong with others.

#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "formats/hugging_face/hugging_face_model.hpp"
#include "graph/zoo/zoo.hpp"
#include "tests/catch.hpp"

namespace rehearsal::formats {
namespace {

using graph::zoo::ZooValues;

/// A file that is gone with it.
class File {
 public:
  explicit File(const std::string& text, const std::string& name = "config.json")
      : folder_(std::filesystem::temp_directory_path() / "rehearsal-hugging-face"), path_(folder_ / name) {
    std::filesystem::create_directories(folder_);
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove_all(folder_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] std::string reference(const std::string& more = "") const { return "hf:" + path_.string() + more; }
  [[nodiscard]] std::string folder() const { return "hf:" + folder_.string(); }

 private:
  std::filesystem::path folder_, path_;
};

const std::string kSizes =
    R"("num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 20, )"
    R"("vocab_size": 31)";

std::string config(const std::string& type, const std::string& more = "") {
  return "{\"model_type\": \"" + type + "\", " + kSizes + (more.empty() ? "" : ", ") + more + "}";
}

std::int64_t parameters(const std::string& text) {
  std::int64_t count = 0;
  const auto graph = graph::zoo::build(read_hugging_face(File(text).reference()).zoo, 1);
  for (const auto& tensor : graph.tensors())
    if (graph::is_weight(tensor.role)) count += graph::element_count(tensor.type.shape);
  return count;
}

std::string refused(const std::string& text) {
  try {
    (void)read_hugging_face(File(text).reference());
  } catch (const BadInput& wrong) {
    return wrong.what();
  }
  return "";
}

}  // namespace

// Counted by transformers 5.23, AutoModelForCausalLM.from_config() on the meta device (scripts/count-parameters).
TEST_CASE("configuration files describe models with as many parameters as transformers gives them") {
  // By hand: embedding and head 2 * 31 * 16, a norm; of two blocks two norms, 16 * (16 + 8 + 8 + 16), 3 * 16 * 20
  CHECK(parameters(config("llama")) == 992 + 16 + 2 * (32 + 768 + 960));
  CHECK(parameters(config("llama", R"("attention_bias": true, "head_dim": 6, "tie_word_embeddings": true)")) == 4928);
  CHECK(parameters(config("mistral", R"("sliding_window": 8)")) == 4528);
  CHECK(parameters(config("phi3", R"("partial_rotary_factor": 0.5)")) == 4528);
  CHECK(parameters(config("qwen2")) == 4592);
  CHECK(parameters(config("mimo")) == 4592);  // Qwen2 with modules that predict further tokens
  CHECK(parameters(config("qwen3", R"("head_dim": 6)")) == 5320);
  CHECK(parameters(config("olmo2")) == 4576);
  CHECK(parameters(config("gemma", R"("head_dim": 6)")) == 4800);
  CHECK(parameters(config("gemma2", R"("head_dim": 6)")) == 4864);
  CHECK(parameters(config("gemma3_text", R"("head_dim": 6)")) == 4888);
  const std::string chosen = R"("num_experts_per_tok": 2, )";
  CHECK(parameters(config("mixtral", chosen + R"("num_local_experts": 3)")) == 8464);
  CHECK(parameters(config("qwen3_moe",
                          chosen + R"("num_experts": 3, "moe_intermediate_size": 10, "head_dim": 8, "decoder_sparse_step": 2)")) == 6624);
  CHECK(parameters(config("minimax_m2", chosen + R"("num_local_experts": 3, "head_dim": 8, "rotary_dim": 4)")) == 10096);
  CHECK(parameters(config("gpt_oss", chosen + R"("num_local_experts": 3, "head_dim": 8, "attention_bias": true, )"
                                              R"("sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"])")) == 10510);
  const std::string one = R"("num_experts_per_tok": 1, "num_local_experts": 3, "head_dim": 8, "intermediate_size_mlp": 24, )";
  CHECK(parameters(config("llama4_text", one + R"("interleave_moe_layer_step": 2)")) == 9184);
  const std::string latent =
      R"("moe_intermediate_size": 10, "first_k_dense_replace": 1, "kv_lora_rank": 8, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, )"
      R"("v_head_dim": 5, )";
  CHECK(parameters(config("deepseek_v2", chosen + latent + R"("n_routed_experts": 3, "n_shared_experts": 1, "q_lora_rank": null)")) ==
        7024);
  CHECK(parameters(config("deepseek_v3", chosen + latent + R"("n_routed_experts": 4, "n_shared_experts": 2, "q_lora_rank": 12)")) == 8088);
  // An index has, by hand, 12 * 3 * 6 for its queries, 16 * 6 and 2 * 6 for its keys, 16 * 3 for its heads: 372 a layer that chooses.
  const std::string indexed =
      chosen + latent + R"("n_routed_experts": 4, "n_shared_experts": 2, "q_lora_rank": 12, "index_n_heads": 3, "index_head_dim": 6)";
  CHECK(parameters(config("deepseek_v32", indexed)) == 8088 + 2 * 372);
  CHECK(parameters(config("glm_moe_dsa", indexed + R"(, "indexer_types": ["full", "shared"])")) == 8088 + 372);
  CHECK_THAT(refused(config("glm_moe_dsa", indexed + R"(, "indexer_types": ["shared", "shared"])")), contains("indexer_types"));
  CHECK_THAT(refused(config("glm_moe_dsa", indexed + R"(, "mlp_layer_types": ["sparse", "dense"])")), contains("mlp_layer_types"));
  const std::string routed =
      R"("attention_bias": true, "use_qk_norm": true, "n_routed_experts": 4, "n_shared_experts": 1, "head_dim": 8, )";
  CHECK(parameters(config("glm4_moe", chosen + routed + R"("moe_intermediate_size": 10, "first_k_dense_replace": 1)")) == 7728);
  CHECK(parameters(R"({"model_type": "gpt_neox", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, )"
                   R"("intermediate_size": 20, "vocab_size": 31, "rotary_pct": 0.25})") == 43176);
  CHECK(parameters(R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 16, "n_head": 4, "n_positions": 8, "vocab_size": 31})") == 7216);
}

// Counted by transformers 5.24.
TEST_CASE("layers that mix tokens in several ways have as many parameters as transformers gives them") {
  const std::string delta =
      R"("head_dim": 8, "full_attention_interval": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 5, )"
      R"("linear_value_head_dim": 3)";
  const std::string chosen = R"(, "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 10, )"
                             R"("shared_expert_intermediate_size": 20)";
  // By hand: embedding, head and a norm 1008, two norms a block; of the attention 16 * (64 + 32) + 32 * 16 + 2 * 8, of the delta rule 16 *
  // 52 + 32 * 4 + 8 + 3 + 12 * 16, two feed-forward layers 3 * 16 * 20
  CHECK(parameters(config("qwen3_5_text", delta)) == 1008 + 64 + 2064 + 1163 + 1920);
  CHECK(parameters(config("qwen3_next", delta + chosen)) == 9227);
  CHECK(parameters(config("qwen3_5_moe_text", delta + chosen)) == 9227);
  CHECK(parameters(config("qwen3_5_text", delta + R"(, "layer_types": ["linear_attention", "full_attention"])")) == 6219);
  CHECK_THAT(refused(config("qwen3_5_text", delta + R"(, "layer_types": ["full_attention", "linear_attention"])")),
             contains("layer_types: full_attention must stand at every so many places"));
  CHECK_THAT(refused(config("qwen3_5_text", R"("linear_num_key_heads": 3, "linear_num_value_heads": 4, "head_dim": 8)")),
             contains("linear_num_key_heads: is 3, which does not divide linear_num_value_heads=4"));
  CHECK_THAT(refused(config("qwen3_next", delta + R"(, "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 10, )"
                                                  R"("shared_expert_intermediate_size": 15)")),
             contains("shared_expert_intermediate_size: is 15"));
  const auto gemma = [](const std::string& same, const std::string& more = "") {
    return config("gemma4_text", R"("head_dim": 6, "global_head_dim": 8, "layer_types": ["sliding_attention", "full_attention"], )"
                                 R"("num_global_key_value_heads": 1, "hidden_size_per_layer_input": 0, "attention_k_eq_v": )" +
                                     same + more);
  };
  CHECK(parameters(gemma("true")) == 4892);
  CHECK(parameters(gemma("false")) == 5276);
  CHECK(parameters(gemma("true", R"(, "enable_moe_block": true, "num_experts": 3, "top_k_experts": 2, "moe_intermediate_size": 10)")) ==
        8002);
  CHECK_THAT(refused(config("mixtral", R"("num_experts_per_tok": 2, "num_local_experts": 3, "num_experts": 6)")),
             contains("num_local_experts: is 3, and num_experts is 6"));
  CHECK(refused(config("mixtral", R"("num_experts_per_tok": 2, "num_local_experts": 3, "num_experts": 3)")).empty());
  CHECK_THAT(refused(config("gemma4_text")), contains("hidden_size_per_layer_input: is 256; only 0 is built"));
  CHECK_THAT(refused(gemma("true", R"(, "num_kv_shared_layers": 1)")), contains("num_kv_shared_layers: is 1; only 0 is built"));
  const std::string routed = R"("head_dim": 6, "n_routed_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 10, )";
  CHECK(parameters(config("mimo_v2_flash", routed + R"("v_head_dim": 5, "hybrid_layer_pattern": [0, 1])")) == 5988);
  CHECK_THAT(refused(config("mimo_v2_flash", routed + R"("swa_head_dim": 8)")), contains("swa_head_dim: is 8; only 6"));
  const std::string step = R"("share_expert_dim": 20, "sliding_window": 4, "layer_types": ["full_attention", "sliding_attention"], )"
                           R"("attention_other_setting": {"num_attention_heads": 6}, )";
  CHECK(parameters(config("step3p7", routed + step + R"("moe_layers_enum": "1")")) == 7352);
  CHECK(parameters(config("step3p5", routed + step + R"("mlp_layer_types": ["dense", "sparse"], "rope_theta": [5000000, 10000])")) == 7352);
  CHECK_THAT(refused(config("step3p7", routed + step + R"("moe_layers_enum": "0")")), contains("moe_layers_enum: must list"));
  const std::string index =
      R"("sparse_attention_config": {"sparse_attention_freq": [0, 1], "sparse_index_dim": 6, "sparse_block_size": 4, )"
      R"("sparse_topk_blocks": 1, "sparse_num_index_heads": )";
  const std::string minimax = R"("head_dim": 8, "rotary_dim": 4, "dense_intermediate_size": 24, "num_local_experts": 3, )"
                              R"("num_experts_per_tok": 2, "shared_intermediate_size": 40, "moe_layer_freq": [0, 1], )";
  CHECK(parameters(config("minimax_m3_vl_text", minimax + index + "2}")) == 10476);
  CHECK_THAT(refused(config("minimax_m3", minimax + index + "4}")),
             contains("sparse_attention_config.sparse_num_index_heads: must be num_key_value_heads=2"));
  CHECK(parameters("{\"model_type\": \"minimax_m3_vl\", \"text_config\": {" + kSizes + ", " + minimax + index + "2}}}") == 10476);
}

TEST_CASE("DeepSeek-V4 is read by the ratios of its layers") {
  const auto with = [](const std::string& more) {
    std::string text =
        config("deepseek_v4",
               R"("head_dim": 8, "qk_rope_head_dim": 2, "q_lora_rank": 12, "o_groups": 2, "o_lora_rank": 5, "index_n_heads": 3, )"
               R"("index_head_dim": 6, "hc_mult": 2, "moe_intermediate_size": 10, "n_routed_experts": 3, "num_experts_per_tok": 2, )" +
                   more);
    text.replace(text.find("hidden_layers\": 2"), 17, "hidden_layers\": 4");
    return text.replace(text.find("key_value_heads\": 2"), 19, "key_value_heads\": 1");
  };
  // Counted by transformers 5.24; the last number is of a module that predicts a further token.
  CHECK(parameters(with(R"("compress_ratios": [0, 0, 4, 128, 0])")) == 17977);
  CHECK(parameters(with(R"("compress_ratios": [128, 128, 4, 128, 0])")) == 20553);
  CHECK(parameters(with(R"("layer_types": ["heavily_compressed_attention", "heavily_compressed_attention", "compressed_sparse_attention", )"
                        R"("heavily_compressed_attention"])")) == 20553);
  CHECK_THAT(refused(with(R"("compress_ratios": [0, 0, 128, 4])")), contains("compress_ratios: layer 2 has 128"));
  CHECK_THAT(refused(with(R"("compress_ratios": [0, 128, 4, 128])")), contains("compress_ratios: layer 1 has 128"));
  CHECK_THAT(refused(with(R"("compress_ratios": [0, 0])")), contains("compress_ratios: has 2 entries for num_hidden_layers=4"));
  CHECK_THAT(refused(with(R"("hc_mult": 2)")), contains("compress_ratios"));
  CHECK_THAT(refused(with(R"("compress_ratios": [0, 0, 4, 128], "n_shared_experts": 2)")), contains("n_shared_experts: only 1 is built"));
  CHECK_THAT(refused(with(R"("compress_ratios": [0, 0, 4, 128], "scoring_func": "softmax")")), contains("scoring_func: is 'softmax'"));
}

namespace {

ZooValues sparse_keys(const std::string& type, const std::string& more) {
  const std::string sizes = R"("num_hidden_layers": 4, "hidden_size": 128, "num_attention_heads": 32, "intermediate_size": 20, )"
                            R"("vocab_size": 31, "num_experts_per_tok": 2, "moe_intermediate_size": 10)";
  return graph::zoo::parse(read_hugging_face(File("{\"model_type\": \"" + type + "\", " + sizes + more + "}").reference()).zoo).values;
}

}  // namespace

// The defaults of the configuration classes of transformers 5.24.
TEST_CASE("heads that a file does not give are what the class of the architecture has, and null is none") {
  const std::string experts = R"(, "num_local_experts": 4)", routed = R"(, "n_routed_experts": 4)", of_qwen = R"(, "num_experts": 4)";
  struct Row {
    const char* type;
    std::string more;
    std::int64_t groups, width;  // 128 over 32 heads: 4
  };
  for (const auto& [type, more, groups, width] :
       {Row{"llama", "", 32, 4}, Row{"mistral", "", 8, 4}, Row{"qwen2", "", 32, 4}, Row{"qwen3", "", 32, 128}, Row{"gemma", "", 16, 256},
        Row{"gemma2", "", 4, 256}, Row{"gemma3_text", "", 4, 256}, Row{"mixtral", experts, 8, 4}, Row{"qwen3_moe", of_qwen, 4, 4},
        Row{"qwen3_vl_moe_text", of_qwen + R"(, "tie_word_embeddings": false)", 16, 4}, Row{"minimax_m2", experts, 8, 128},
        Row{"gpt_oss", experts, 8, 64}, Row{"llama4_text", experts + R"(, "intermediate_size_mlp": 9)", 8, 128},
        Row{"glm4_moe", routed, 8, 4}, Row{"qwen3_5_text", "", 4, 256}, Row{"mimo_v2_flash", routed, 4, 192},
        Row{"minimax_m3", experts + R"(, "dense_intermediate_size": 9, "shared_intermediate_size": 40)", 4, 128}}) {
    INFO(type);
    CHECK(sparse_keys(type, more).at("kv_heads") == groups);
    CHECK(sparse_keys(type, more).at("head_dim") == width);
    CHECK(sparse_keys(type, more + R"(, "num_key_value_heads": null)").at("kv_heads") == 32);
    CHECK(sparse_keys(type, more + R"(, "num_key_value_heads": 2)").at("kv_heads") == 2);
  }
}

TEST_CASE("ranks, experts and caps that a file does not give are what the class of the architecture has, and null is none") {
  const std::string latent = R"(, "n_routed_experts": 4, "kv_lora_rank": 8, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, )"
                             R"("v_head_dim": 5)";
  const auto third = sparse_keys("deepseek_v3", latent), second = sparse_keys("deepseek_v2", latent);
  CHECK(third.at("q_lora") == 1536);
  CHECK(sparse_keys("deepseek_v3", latent + R"(, "q_lora_rank": null)").at("q_lora") == 0);
  CHECK(third.at("shared_experts") == 1);
  CHECK(third.at("dense_layers") == 3);
  CHECK(third.at("gate_scale") == 2500);
  CHECK(second.at("shared_experts") == 2);
  CHECK(second.at("dense_layers") == 0);
  const auto indexed = [&](const char* type, const std::string& more) {
    return sparse_keys(type, latent + R"(, "q_lora_rank": 12)" + more);
  };
  CHECK(indexed("deepseek_v32", "").at("index_heads") == 64);
  CHECK(indexed("glm_moe_dsa", "").at("index_heads") == 32);
  const auto shared = indexed("glm_moe_dsa", R"(, "index_topk_freq": 2)");  // two that choose, one that does not, one that does
  CHECK(shared.at("index_first") == 2);
  CHECK(shared.at("index_every") == 2);
  CHECK(sparse_keys("mistral", "").at("window") == 4096);
  CHECK(sparse_keys("mistral", R"(, "sliding_window": null)").at("window") == 0);
  CHECK(sparse_keys("gemma2", "").at("score_cap") == 50);
  CHECK(sparse_keys("gemma2", R"(, "attn_logit_softcapping": null)").at("score_cap") == 0);
  CHECK(sparse_keys("llama", "").at("seq") == 2048);
  CHECK(sparse_keys("qwen2", "").at("seq") == 4096);
  CHECK_THROWS_WITH(sparse_keys("qwen3_vl_text", ""), contains("tie_word_embeddings: is missing"));
  CHECK_THROWS_WITH(sparse_keys("glm_moe_dsa", latent + R"(, "q_lora_rank": 12, "index_topk_pattern": "FS")"),
                    contains("index_topk_pattern"));
  CHECK_THROWS_WITH(sparse_keys("deepseek_v3", latent + R"(, "first_k_dense_replace": 5)"),
                    contains("first_k_dense_replace: is 5, more than num_hidden_layers=4"));
  CHECK_THROWS_WITH(sparse_keys("llama4_text", R"(, "num_local_experts": 4, "intermediate_size_mlp": 9, "moe_layers": [1, 3])"),
                    contains("moe_layers"));
}

TEST_CASE("hybrid decoders are read by their pattern") {
  const auto with = [](const std::string& more) {
    return config("nemotron_h", R"("mamba_num_heads": 4, "mamba_head_dim": 3, "ssm_state_size": 5, "n_groups": 2, "chunk_size": 4, )"
                                R"("head_dim": 6, "moe_intermediate_size": 7, "moe_shared_expert_intermediate_size": 9, )"
                                R"("n_routed_experts": 3, "num_experts_per_tok": 2, "max_position_embeddings": 8, )" +
                                    more);
  };
  // Counted by transformers 5.23.
  CHECK(parameters(with(R"("hybrid_override_pattern": "MEM*E", "moe_latent_size": 10)")) == 6680);
  CHECK(parameters(with(R"("layers_block_type": ["mamba", "attention", "mlp", "mamba", "mlp"])")) == 5808);
  CHECK(parameters(with(R"("layers_block_type": ["mamba", "attention", "moe", "mamba", "moe"])")) == 6544);
  for (const char* pattern : {"MEM", "M**E", "EM", "ME-", "*ME", "M"})
    CHECK_THAT(refused(with("\"hybrid_override_pattern\": \"" + std::string(pattern) + "\"")),
               contains("hybrid_override_pattern: '") && contains(pattern));
  CHECK_THAT(refused(with(R"("layers_block_type": ["rnn"])")), contains("layers_block_type: has 'rnn'"));
  CHECK_THAT(refused(with(R"("chunk_size": 4)")), contains("hybrid_override_pattern: is missing"));
  CHECK_THAT(refused(with(R"("tie_word_embeddings": true, "hybrid_override_pattern": "ME")")),
             contains("tie_word_embeddings: only false is built"));  // transformers makes two matrices of it
  CHECK_THAT(refused(with(R"("use_bias": true, "hybrid_override_pattern": "ME")")), contains("use_bias: only false is built"));
}

TEST_CASE("constants that are built otherwise than the file says are named") {
  const File file(config("llama", R"("rms_norm_eps": 1e-6, "rope_scaling": {"rope_type": "llama3", "factor": 8.0})"));
  const auto model = read_hugging_face(file.reference());
  CHECK(model.without.empty());
  REQUIRE(model.otherwise.size() == 2);
  CHECK_THAT(model.otherwise[0], contains("rope_scaling: ") && contains("left out"));
  CHECK_THAT(model.otherwise[1], contains("rms_norm_eps=1e-06: norms are built with 1e-05"));
  for (const char* same : {R"("rms_norm_eps": 1e-5, "rope_scaling": null)", R"("rope_parameters": {"rope_type": "default"})"})
    CHECK(read_hugging_face(File(config("llama", same)).reference()).otherwise.empty());
}

TEST_CASE("scaled frequencies of one type of layers are named, and a scaling that is no object is refused") {
  const File nested(config("llama", R"("rope_parameters": {"full_attention": {"rope_type": "yarn"}, "sliding_attention": {}})"));
  CHECK(read_hugging_face(nested.reference()).otherwise.size() == 1);
  CHECK_THAT(refused(config("llama", R"("rope_scaling": "yarn")")), contains("rope_scaling") && contains("must be an object"));
}

TEST_CASE("what stands behind the file stands over it, and a folder has its config.json") {
  const File file(config("llama", R"("max_position_embeddings": 131072, "rope_theta": 500000.0, "rope_scaling": {"factor": Infinity})"));
  const auto usual = graph::zoo::parse(read_hugging_face(file.reference()).zoo);
  CHECK(usual.row->name == "llama");
  CHECK(usual.values.at("seq") == 4096);
  CHECK(usual.values.at("theta") == 500'000);
  const auto given = graph::zoo::parse(read_hugging_face(file.folder() + "?seq=8192&layers=32&batch=3").zoo);
  CHECK(given.values.at("seq") == 8192);
  CHECK(given.values.at("layers") == 32);
  CHECK(given.values.at("batch") == 3);
  CHECK(given.values.at("vocab") == 31);
  CHECK(graph::zoo::parse(read_hugging_face(File(config("llama", R"("max_position_embeddings": 512)")).reference()).zoo).values.at("seq") ==
        512);
}

TEST_CASE("windows are every other layer of Gemma 2, five of six of Gemma 3, and what layer_types says") {
  const auto values = [](const std::string& type, const std::string& more) {
    return graph::zoo::parse(read_hugging_face(File(config(type, more)).reference()).zoo).values;
  };
  CHECK(values("gemma2", R"("head_dim": 6)").at("window_every") == 2);
  CHECK(values("gemma2", R"("head_dim": 6)").at("window") == 4096);
  const auto third = values("gemma3_text", R"("head_dim": 6, "sliding_window": 512)");
  CHECK(third.at("window_every") == 6);
  CHECK(third.at("window") == 512);
  CHECK(third.at("theta") == 1'000'000);
  CHECK(third.at("window_theta") == 10'000);
  CHECK(values("gemma2", R"("head_dim": 6, "layer_types": ["full_attention", "full_attention"])").at("window") == 0);
  CHECK(values("gpt_oss", R"("num_local_experts": 3, "num_experts_per_tok": 2, "head_dim": 8, "attention_bias": true,)"
                          R"("layer_types": ["sliding_attention", "full_attention"])")
            .at("window") == 128);
}

TEST_CASE("where layers see all tokens is found from the list of them") {
  const auto values = [](const std::vector<bool>& whole) {
    std::string list;
    for (const bool sees_all : whole)
      list += std::string(list.empty() ? "" : ", ") + (sees_all ? "\"full_attention\"" : "\"sliding_attention\"");
    std::string text = config("mistral", R"("sliding_window": 4, "layer_types": [)" + list + "]");
    text.replace(text.find("hidden_layers\": 2"), 17, "hidden_layers\": " + std::to_string(whole.size()));
    const auto all = graph::zoo::parse(read_hugging_face(File(text).reference()).zoo).values;
    return std::vector<std::int64_t>{all.at("window_every"), all.at("window_offset"), all.at("window_first")};
  };
  using Found = std::vector<std::int64_t>;
  CHECK(values({false, false, true, false, false, true}) == Found{3, 0, 0});
  CHECK(values({true, false, false, true, false, false}) == Found{3, 2, 0});
  CHECK(values({false, true, false, false, false, true}) == Found{4, 2, 0});
  CHECK(values({true, false, true, false, true, false}) == Found{2, 1, 0});
  CHECK(values({true, false, false, true, false, false, false, true}) == Found{4, 0, 1});  // the first one, then every fourth
  CHECK(values({false, false, false}) == Found{0, 0, 0});
  CHECK(values({false, false, true}) == Found{3, 0, 0});
  CHECK(values({true, false, false}) == Found{4, 3, 0});
}

TEST_CASE("of a model with eyes the language model is read, which is said") {
  const File file(R"({"model_type": "qwen3_vl", "tie_word_embeddings": true, "vision_config": {"depth": 3}, "text_config": )" +
                  config("qwen3_vl_text", R"("head_dim": 6)") + "}");
  const auto model = read_hugging_face(file.reference());
  CHECK(graph::zoo::parse(model.zoo).values.at("tied") == 1);
  REQUIRE(model.without.size() == 1);
  CHECK_THAT(model.without.front(), contains("vision_config"));
  const File further(config("mixtral", R"("num_local_experts": 3, "num_experts_per_tok": 2, "num_nextn_predict_layers": 2)"));
  CHECK_THAT(read_hugging_face(further.reference()).without.at(0), contains("mtp=2"));
  CHECK(read_hugging_face(further.reference("?mtp=2")).without.empty());
}

TEST_CASE("configuration files that cannot be read are refused by file and key") {
  CHECK_THROWS_WITH(read_hugging_face("hf:/nowhere/config.json"), contains("/nowhere/config.json") && contains("cannot be read"));
  CHECK_THAT(refused("{"), contains("config.json: is not JSON"));
  CHECK_THAT(refused("[1]"), contains("config.json: is no JSON object"));
  CHECK_THAT(refused("{}"), contains("config.json: model_type: is missing"));
  CHECK_THAT(refused(R"({"model_type": "llama"})"), contains("config.json: num_hidden_layers: is missing"));
  CHECK_THAT(refused(config("llama", R"("head_dim": 0)")), contains("head_dim: is 0; it must be at least 1"));
  CHECK_THAT(refused(config("llama", R"("head_dim": -2)")), contains("head_dim: is -2"));
  CHECK_THAT(refused(config("llama", R"("head_dim": "six")")), contains("head_dim: is \"six\""));
  CHECK_THAT(refused(config("llama", R"("head_dim": 7)")), contains("head_dim: is 7, of which 100 % are no pairs of features"));
  CHECK_THAT(refused(config("llama", R"("rope_theta": 0)")), contains("rope_theta: is 0"));
  CHECK_THAT(refused(config("llama", R"("tie_word_embeddings": 1)")), contains("tie_word_embeddings: is 1; it must be true or false"));
  CHECK_THAT(
      refused(R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 3, "intermediate_size": 4, )"
              R"("vocab_size": 9})"),
      contains("num_attention_heads: is 3, which does not divide hidden_size=16"));
  CHECK_THAT(
      refused(R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 3, )"
              R"("intermediate_size": 4, "vocab_size": 9})"),
      contains("num_key_value_heads: is 3, which does not divide num_attention_heads=4"));
  CHECK_THAT(refused(config("mixtral", R"("num_local_experts": 3, "num_experts_per_tok": 4)")),
             contains("num_experts_per_tok: is 4, more than num_local_experts=3"));
}

TEST_CASE("a misspelt key is not taken for a missing one") {
  CHECK_THAT(refused(config("llama", R"("rope_thetas": 500000)")), contains("rope_thetas: is no key that is read; rope_theta is"));
  CHECK_THAT(
      refused(R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_head": 2, )"
              R"("intermediate_size": 4, "vocab_size": 9})"),
      contains("num_key_value_head: is no key that is read; num_key_value_heads is, and is not there"));
  CHECK_THAT(refused(R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4, )"
                     R"("intermediate_size": 4, "vocab_size": 9, "tie_word_embedding": true})"),
             contains("tie_word_embedding: is no key"));
  // keys of training and of other things are nobody's mistake
  static_cast<void>(
      read_hugging_face(File(config("llama", R"("attention_dropout": 0.0, "use_cache": true, "rope_theta": 1e4)")).reference()));
}

TEST_CASE("Gemma 3 without a window has one kind of angles") {
  const File file(config("gemma3_text", R"("head_dim": 6, "layer_types": ["full_attention", "full_attention"])"));
  const auto values = graph::zoo::parse(read_hugging_face(file.reference()).zoo).values;
  CHECK(values.at("window") == 0);
  CHECK(values.at("window_theta") == 0);
}

TEST_CASE("architectures that the zoo does not build are refused with the nearest that it does") {
  CHECK_THAT(refused(config("deepseek_v33")), contains("model_type: 'deepseek_v33' is not read; the nearest that is read is deepseek_v3"));
  CHECK_THAT(refused(config("mamba2")), contains("'mamba2' is not read") && contains("Read are llama"));
  CHECK_THAT(refused(config("llama", R"("mlp_bias": true)")), contains("mlp_bias: only false is built"));
  CHECK_THAT(refused(config("llama", R"("hidden_act": "gelu")")), contains("hidden_act: is 'gelu'; only 'silu' is built"));
  CHECK_THAT(refused(config("qwen3", R"("use_sliding_window": true, "sliding_window": 4)")), contains("use_sliding_window"));
  std::string irregular = config("mistral", R"("sliding_window": 4, "layer_types": ["sliding_attention", "full_attention", )"
                                            R"("full_attention", "sliding_attention", "full_attention"])");
  irregular.replace(irregular.find("hidden_layers\": 2"), 17, "hidden_layers\": 5");
  CHECK_THAT(refused(irregular), contains("layer_types: is not regular"));
  CHECK_THAT(refused(config("mistral", R"("layer_types": ["full_attention"])")),
             contains("layer_types: has 1 entries for num_hidden_layers=2"));
}

}  // namespace rehearsal::formats
