// Keys and their defaults are those of the configuration classes of Hugging Face's transformers, 5.x; what its models do otherwise than the
// zoo's is refused by key. Left out everywhere: frequencies that are scaled for longer contexts (rope_scaling), which are constants.

#include "formats/hugging_face/architectures.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "formats/hugging_face/mixed_attention.hpp"
#include "formats/hugging_face/reading.hpp"

namespace rehearsal::formats {
namespace {

void read_llama(const Configuration& c, ZooValues& v) {
  read_gated_decoder(c, v);
  read_bias(c, v);
  read_rotary(c, v, 10'000, 1);
}

void read_mistral(const Configuration& c, ZooValues& v) {
  read_gated_decoder(c, v, {8, 0});
  read_rotary(c, v, 10'000, 1);
  constexpr std::int64_t kUsualWindow = 4096;
  read_window(c, v, c.absent("sliding_window") ? kUsualWindow : c.count("sliding_window", 0));
}

void read_phi3(const Configuration& c, ZooValues& v) {
  read_gated_decoder(c, v);
  read_rotary(c, v, 10'000, partial_rotary(c));
  read_window(c, v, c.count("sliding_window", 0));
}

/// Windows of Qwen are off unless use_sliding_window.
void read_qwen_window(const Configuration& c, ZooValues& v) {
  if (!c.flag("use_sliding_window", false)) return;
  if (!c.has("layer_types"))
    c.refuse("use_sliding_window", "only false is built where layer_types does not say which layers have a window");
  read_window(c, v, c.size("sliding_window"));
}

void read_qwen2(const Configuration& c, ZooValues& v) {
  read_gated_decoder(c, v, {32, 0});
  v["qkv_bias"] = 1;
  read_rotary(c, v, 10'000, 1);
  read_qwen_window(c, v);
}

void read_normed_qwen(const Configuration& c, ZooValues& v, const UsualHeads& usual, double usual_theta) {
  read_gated_decoder(c, v, usual);
  read_bias(c, v);
  v["qk_norm"] = 1;
  read_rotary(c, v, usual_theta, 1);
  read_qwen_window(c, v);
}

void read_qwen3(const Configuration& c, ZooValues& v) { read_normed_qwen(c, v, {32, 128}, 10'000); }

/// Whether embeddings are tied has one default for the whole model, another for its language model.
void require_tied_or_not(const Configuration& c) {
  if (!c.has("tie_word_embeddings")) c.refuse("tie_word_embeddings", "is missing");
}

void read_qwen3_vl(const Configuration& c, ZooValues& v) {
  require_tied_or_not(c);
  read_normed_qwen(c, v, {32, 128}, 500'000);
}

/// OLMo 2 normalizes what attention and feed-forward layer give, and queries and keys over all heads.
void read_olmo2(const Configuration& c, ZooValues& v) {
  read_llama(c, v);
  v["norms"] = v["qk_norm"] = 2;
}

void read_any_gemma(const Configuration& c, ZooValues& v, std::int64_t groups) {
  const auto act = c.has("hidden_activation") ? c.text("hidden_activation", "") : c.text("hidden_act", "gelu_pytorch_tanh");
  // The first Gemma's files say gelu, and mean the one by tanh.
  if (act != "gelu_pytorch_tanh" && act != "gelu") c.refuse("hidden_activation", "is '" + act + "'; only 'gelu_pytorch_tanh' is built");
  must_be_set(c, "use_bidirectional_attention", false, false);
  read_sizes(c, v);
  read_heads(c, v, {groups, 256});
  v["tied"] = c.flag("tie_word_embeddings", true) ? 1 : 0;
  read_bias(c, v);
  v["act"] = v["embed_scale"] = 1;
  read_rotary(c, v, 10'000, 1);
}

void read_gemma(const Configuration& c, ZooValues& v) { read_any_gemma(c, v, 16); }

/// Scores and results are capped at so much where the file says nothing; 0: not.
struct UsualCaps {
  double scores = 0, results = 0;
};

void read_later_gemma(const Configuration& c, ZooValues& v, const UsualCaps& usual) {
  read_any_gemma(c, v, 4);
  v["norms"] = 1;
  v["query_scale"] = c.size("query_pre_attn_scalar", 256);
  v["score_cap"] = cap_of(c, "attn_logit_softcapping", usual.scores);
  v["logit_cap"] = cap_of(c, "final_logit_softcapping", usual.results);
  read_window(c, v, c.size("sliding_window", 4096));
  if (!c.has("layer_types")) v["window_every"] = 2;
}

void read_gemma2(const Configuration& c, ZooValues& v) { read_later_gemma(c, v, {50, 30}); }

void read_gemma3(const Configuration& c, ZooValues& v) {
  read_later_gemma(c, v, {});
  v["qk_norm"] = 1;
  v["theta"] = std::llround(theta(c, 1'000'000));
  const auto local = std::llround(c.number("rope_local_base_freq", 10'000));
  if (v.contains("window") && v.at("window") != 0) v["window_theta"] = local;
  if (!c.has("layer_types")) v["window_every"] = c.size("sliding_window_pattern", 6);
}

void read_mixtral(const Configuration& c, ZooValues& v) {
  read_gated_decoder(c, v, {8, 0});
  read_experts(c, v, "num_local_experts", "num_experts_per_tok");
  read_rotary(c, v, 1'000'000, 1);
  read_window(c, v, c.count("sliding_window", 0));
}

void read_qwen_experts(const Configuration& c, ZooValues& v) {
  read_experts(c, v, "num_experts", "num_experts_per_tok");
  v["moe_ffn"] = c.size("moe_intermediate_size");
  v["moe_every"] = c.size("decoder_sparse_step", 1);
  if (c.is_filled_list("mlp_only_layers")) c.refuse("mlp_only_layers", "only an empty list is built");
}

void read_qwen3_moe(const Configuration& c, ZooValues& v) {
  read_normed_qwen(c, v, {4, 0}, 10'000);
  read_qwen_experts(c, v);
  v["gate"] = c.flag("norm_topk_prob", false) ? 0 : 3;
}

void read_qwen3_vl_moe(const Configuration& c, ZooValues& v) {
  require_tied_or_not(c);
  read_normed_qwen(c, v, {16, 0}, 500'000);
  read_qwen_experts(c, v);
  must_be_set(c, "norm_topk_prob", true, true);
}

void read_minimax_m2(const Configuration& c, ZooValues& v) {
  read_gated_decoder(c, v, {8, 128});
  read_experts(c, v, "num_local_experts", "num_experts_per_tok");
  must_be_set(c, "use_qk_norm", true, true);
  must_be(c, "qk_norm_type", "per_layer", "per_layer");
  must_be(c, "scoring_func", "sigmoid", "sigmoid");
  v["qk_norm"] = 2;
  v["gate"] = 1;
  const double turning = static_cast<double>(c.size("rotary_dim", v.at("head_dim")));
  read_rotary(c, v, 5'000'000, turning / static_cast<double>(v.at("head_dim")));
}

/// A rank of null: queries come from the block's input.
void read_latent_attention(const Configuration& c, ZooValues& v) {
  constexpr std::int64_t kUsualRank = 1536;
  must_be_set(c, "attention_bias", false, false);
  v["heads"] = c.size("num_attention_heads");
  v["kv_heads"] = 0;
  v["q_lora"] = c.absent("q_lora_rank") ? kUsualRank : c.count("q_lora_rank", 0);
  v["kv_lora"] = c.size("kv_lora_rank");
  v["nope_dim"] = c.size("qk_nope_head_dim");
  v["rope_dim"] = c.size("qk_rope_head_dim");
  v["v_dim"] = c.size("v_head_dim");
  if (v.at("rope_dim") % 2 != 0) c.refuse("qk_rope_head_dim", "is odd; features turn in pairs");
  v["theta"] = std::llround(theta(c, 10'000));
}

void read_deepseek(const Configuration& c, ZooValues& v, const UsualRouting& usual) {
  must_be(c, "hidden_act", "silu", "silu");
  read_sizes(c, v);
  read_latent_attention(c, v);
  v["tied"] = c.flag("tie_word_embeddings", false) ? 1 : 0;
  read_routed(c, v, usual);
  if (c.size("moe_layer_freq", 1) != 1) c.refuse("moe_layer_freq", "only 1 is built");
}

void read_deepseek_v2(const Configuration& c, ZooValues& v) {
  read_deepseek(c, v, {2, 0, 1});
  must_be(c, "scoring_func", "softmax", "softmax");
  must_be_set(c, "norm_topk_prob", false, false);
  v["gate"] = 3;
}

void read_deepseek_v3(const Configuration& c, ZooValues& v) {
  read_deepseek(c, v, {1, 3, 2.5});
  must_be(c, "scoring_func", "sigmoid", "sigmoid");
  must_be_set(c, "norm_topk_prob", true, true);
  v["gate"] = 1;
}

/// Which blocks choose tokens by themselves, or see what an earlier one chose: a few first ones do, then every so many.
void read_index_layers(const Configuration& c, ZooValues& v) {
  const auto types = c.texts("indexer_types");
  if (types.empty()) {
    if (c.has("index_topk_pattern")) c.refuse("index_topk_pattern", "is not read; say it as indexer_types, a text for every layer");
    v["index_every"] = c.size("index_topk_freq", 1);
    if (v.at("index_every") > 1) v["index_first"] = c.size("index_skip_topk_offset", 2);
    return;
  }
  if (static_cast<std::int64_t>(types.size()) != v.at("layers"))
    c.refuse("indexer_types", "has " + std::to_string(types.size()) + " entries for num_hidden_layers=" + std::to_string(v.at("layers")));
  const auto first = std::ranges::find(types, "shared") - types.begin();
  if (first == 0) c.refuse("indexer_types", "begins with 'shared'; the first layer must choose by itself, 'full'");
  const auto every = std::find(types.begin() + first, types.end(), "full") - types.begin() - first + 1;
  v["index_first"] = first;
  v["index_every"] = every;
  for (std::ptrdiff_t layer = 0; layer < std::ssize(types); ++layer)
    if (types[static_cast<std::size_t>(layer)] != (layer < first || (layer - first + 1) % every == 0 ? "full" : "shared"))
      c.refuse("indexer_types", "is not regular: 'full' must stand at the first " + std::to_string(first) + " places and then at every " +
                                    std::to_string(every) + "th alone, else 'shared'");
}

/// DeepSeek-V3 with an index that chooses what a query sees, by as many heads where the file does not say how many.
void read_any_indexed(const Configuration& c, ZooValues& v, std::int64_t heads) {
  read_deepseek_v3(c, v);
  v["q_lora"] = c.size("q_lora_rank");
  v["index_heads"] = c.size("index_n_heads", heads);
  v["index_dim"] = c.size("index_head_dim", 128);
  v["index_top"] = c.size("index_topk", 2048);
  read_index_layers(c, v);
}

void read_indexed(const Configuration& c, ZooValues& v) { read_any_indexed(c, v, 64); }

/// Blocks without experts come first, by their number or by a word for each.
void read_glm_moe_dsa(const Configuration& c, ZooValues& v) {
  read_any_indexed(c, v, 32);
  if (c.has("mlp_layer_types")) v["dense_layers"] = leading(c, "mlp_layer_types", v.at("layers"), "dense", "sparse");
}

void read_glm4_moe(const Configuration& c, ZooValues& v) {
  read_gated_decoder(c, v, {8, 0});
  v["qkv_bias"] = c.flag("attention_bias", false) ? 1 : 0;
  v["qk_norm"] = c.flag("use_qk_norm", false) ? 1 : 0;
  read_rotary(c, v, 10'000, c.has("partial_rotary_factor") || c.is_object("rope_parameters") ? partial_rotary(c) : 0.5);
  read_routed(c, v, {1, 1, 1});
  must_be_set(c, "norm_topk_prob", true, true);
  v["gate"] = 1;
}

void read_gpt_oss(const Configuration& c, ZooValues& v) {
  read_gated_decoder(c, v, {8, 64});
  read_experts(c, v, "num_local_experts", "num_experts_per_tok");
  must_be_set(c, "attention_bias", true, true);
  v["qkv_bias"] = v["o_bias"] = v["sinks"] = v["expert_bias"] = 1;
  read_rotary(c, v, 150'000, 1);
  read_window(c, v, c.count("sliding_window", 128));
}

/// A list of the layers with experts stands over their step.
void require_listed_experts(const Configuration& c, const ZooValues& v) {
  const auto listed = c.counts("moe_layers");
  if (listed.empty()) return;
  const auto every = v.at("moe_every");
  std::vector<std::int64_t> expected;
  for (std::int64_t layer = every - 1; layer < v.at("layers"); layer += every) expected.push_back(layer);
  if (listed != expected)
    c.refuse("moe_layers", "is not every layer that interleave_moe_layer_step=" + std::to_string(every) + " makes one with experts");
}

void read_llama4(const Configuration& c, ZooValues& v) {
  must_be(c, "hidden_act", "silu", "silu");
  must_be_set(c, "attention_bias", false, false);
  read_sizes(c, v);
  read_heads(c, v, {8, 128});
  v["tied"] = c.flag("tie_word_embeddings", false) ? 1 : 0;
  read_experts(c, v, "num_local_experts", "num_experts_per_tok");
  v["moe_ffn"] = v.at("ffn");
  v["ffn"] = c.size("intermediate_size_mlp");
  v["shared_experts"] = 1;
  v["moe_every"] = c.size("interleave_moe_layer_step", 1);
  require_listed_experts(c, v);
  v["gate"] = 2;
  v["qk_norm"] = c.flag("use_qk_norm", true) ? 3 : 0;
  v["nope_every"] = 4;
  if (c.is_filled_list("no_rope_layers")) c.refuse("no_rope_layers", "only the usual one layer of four is built; leave the list empty");
  read_rotary(c, v, 500'000, 1);
}

void read_gpt_neox(const Configuration& c, ZooValues& v) {
  must_be(c, "hidden_act", "gelu", "gelu");
  must_be_set(c, "use_parallel_residual", true, true);
  must_be_set(c, "attention_bias", true, true);
  read_sizes(c, v);
  read_heads(c, v);
  read_rotary(c, v, c.number("rotary_emb_base", 10'000), c.number("rotary_pct", partial_rotary(c) < 1 ? partial_rotary(c) : 0.25));
  v.erase("head_dim");
  v.erase("kv_heads");
  v["tied"] = c.flag("tie_word_embeddings", false) ? 1 : 0;
}

void read_gpt2(const Configuration& c, ZooValues& v) {
  must_be(c, "activation_function", "gelu_new", "gelu_new");
  must_be_set(c, "add_cross_attention", false, false);
  v["layers"] = c.size("n_layer");
  v["hidden"] = c.size("n_embd");
  v["heads"] = c.size("n_head");
  if (v.at("hidden") % v.at("heads") != 0)
    c.refuse("n_head", "is " + std::to_string(v.at("heads")) + ", which does not divide n_embd=" + std::to_string(v.at("hidden")));
  v["vocab"] = c.size("vocab_size");
  v["seq"] = c.size("n_positions");  // the table of positions has as many rows
  v["ffn"] = c.size("n_inner", 4 * v.at("hidden"));
  v["tied"] = c.flag("tie_word_embeddings", true) ? 1 : 0;
}

/// A letter a layer: M state space, * attention, E experts, - feed-forward.
std::string pattern_of(const Configuration& c) {
  if (c.has("hybrid_override_pattern")) return c.text("hybrid_override_pattern", "");
  const std::map<std::string, char> letters{{"mamba", 'M'}, {"attention", '*'}, {"moe", 'E'}, {"mlp", '-'}};
  std::string pattern;
  for (const auto& type : c.texts("layers_block_type")) {
    const auto letter = letters.find(type);
    if (letter == letters.end()) c.refuse("layers_block_type", "has '" + type + "'; mamba, attention, moe and mlp are built");
    pattern += letter->second;
  }
  if (pattern.empty()) c.refuse("hybrid_override_pattern", "is missing, and layers_block_type, too");
  return pattern;
}

/// Blocks of M, perhaps *, and E or -, which is what the published models have.
void read_pattern(const Configuration& c, ZooValues& v) {
  const auto pattern = pattern_of(c);
  const char last = pattern.back() == '-' ? '-' : 'E';
  std::int64_t blocks = 0, attention_at = 0;
  constexpr std::int64_t kMostBlocks = 60;
  for (std::size_t at = 0; at < pattern.size(); ++blocks) {
    const bool attends = at + 1 < pattern.size() && pattern[at + 1] == '*';
    const std::string block = attends ? std::string("M*") + last : std::string("M") + last;
    if (pattern.compare(at, block.size(), block) != 0 || blocks == kMostBlocks)
      c.refuse("hybrid_override_pattern",
               "'" + pattern + "' is not made of at most " + std::to_string(kMostBlocks) + " times M" + last + " or M*" + last);
    if (attends) attention_at += std::int64_t{1} << blocks;
    at += block.size();
  }
  v["blocks"] = blocks;
  v["attention_at"] = attention_at;
  if (last == '-') return void(v["experts"] = 0);
  ZooValues experts;
  read_experts(c, experts, "n_routed_experts", "num_experts_per_tok");
  v.insert(experts.begin(), experts.end());
  v["ffn"] = c.size("moe_intermediate_size");
  v["shared_ffn"] = c.size("moe_shared_expert_intermediate_size");
  v["latent"] = c.count("moe_latent_size", 0);
  v["gate_scale"] = std::llround(1000 * c.number("routed_scaling_factor", 1));
  must_be_set(c, "norm_topk_prob", true, true);
}

void read_nemotron_h(const Configuration& c, ZooValues& v) {
  for (const char* bias : {"use_bias", "mamba_proj_bias", "mlp_bias", "attention_bias"}) must_be_set(c, bias, false, false);
  must_be_set(c, "use_conv_bias", true, true);
  must_be(c, "mlp_hidden_act", "relu2", "relu2");
  must_be(c, "mamba_hidden_act", "silu", "silu");
  v["hidden"] = c.size("hidden_size");
  v["vocab"] = c.size("vocab_size");
  v["ffn"] = c.size("intermediate_size");
  must_be_set(c, "tie_word_embeddings", false, false);  // transformers has two matrices, whatever a file says
  v["tied"] = 0;
  v["heads"] = c.size("num_attention_heads");
  v["kv_heads"] = c.size("num_key_value_heads");
  v["head_dim"] = c.size("head_dim", c.size("attention_head_dim", 128));
  const auto groups = c.size("n_groups"), heads = c.size("mamba_num_heads");
  if (v.at("heads") % v.at("kv_heads") != 0)
    c.refuse("num_key_value_heads", "does not divide num_attention_heads=" + std::to_string(v.at("heads")));
  if (heads % groups != 0)
    c.refuse("n_groups", "is " + std::to_string(groups) + ", which does not divide mamba_num_heads=" + std::to_string(heads));
  v["ssm_groups"] = groups;
  v["ssm_heads"] = heads;
  v["ssm_head_dim"] = c.size("mamba_head_dim");
  v["ssm_state"] = c.size("ssm_state_size");
  v["conv"] = c.size("conv_kernel", 4);
  v["chunk"] = c.size("chunk_size", 128);
  read_pattern(c, v);
}

constexpr Architecture kArchitectures[] = {
    {"llama", "llama", read_llama, {}, 2048},
    {"mistral", "llama", read_mistral},
    {"phi3", "llama", read_phi3},
    {"qwen2", "llama", read_qwen2},
    {"mimo", "llama", read_qwen2},
    {"qwen3", "llama", read_qwen3},
    {"qwen3_vl_text", "llama", read_qwen3_vl},
    {"olmo2", "llama", read_olmo2, {}, 2048},
    {"gemma", "llama", read_gemma},
    {"gemma2", "llama", read_gemma2},
    {"gemma3_text", "llama", read_gemma3},
    {"gemma4_text", "llama", read_gemma4, "enable_moe_block"},
    {"qwen3_5_text", "llama", read_qwen3_5},
    {"gpt2", "gpt", read_gpt2},
    {"gpt_neox", "gpt-neox", read_gpt_neox, {}, 2048},
    {"mixtral", "moe", read_mixtral},
    {"qwen3_moe", "moe", read_qwen3_moe},
    {"qwen3_vl_moe_text", "moe", read_qwen3_vl_moe},
    {"minimax_m2", "moe", read_minimax_m2},
    {"gpt_oss", "moe", read_gpt_oss},
    {"llama4_text", "moe", read_llama4},
    {"deepseek_v3", "moe", read_deepseek_v3},
    {"deepseek_v2", "moe", read_deepseek_v2, {}, 2048},
    {"glm4_moe", "moe", read_glm4_moe},
    {"kimi_k2", "moe", read_deepseek_v3},
    {"deepseek_v32", "moe", read_indexed},
    {"glm_moe_dsa", "moe", read_glm_moe_dsa},
    {"qwen3_next", "moe", read_qwen3_next},
    {"qwen3_5_moe_text", "moe", read_qwen3_5_moe},
    {"mimo_v2_flash", "moe", read_mimo_v2_flash},
    {"step3p5", "moe", read_step3},
    {"step3p7", "moe", read_step3},
    {"minimax_m3", "moe", read_minimax_m3},
    {"minimax_m3_vl", "moe", read_minimax_m3},
    {"minimax_m3_vl_text", "moe", read_minimax_m3},
    {"nemotron_h", "hybrid", read_nemotron_h},
    {"deepseek_v4", "deepseek-v4", read_deepseek_v4},
    {"deepseek_ref", "deepseek-v4", read_deepseek_v4},
};

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

}  // namespace rehearsal::formats
