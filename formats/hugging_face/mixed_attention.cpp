// Keys and defaults as in architectures.cpp: those of transformers, 5.x.

#include "formats/hugging_face/mixed_attention.hpp"

#include <algorithm>
#include <cmath>

namespace rehearsal::formats {
namespace {

const char* const kLinear = "linear_attention";

/// Gated delta rules, and every so many layers an attention that is gated, too.
void read_delta_layers(const Configuration& c, ZooValues& v) {
  const auto types = layer_types(c, "layer_types", v.at("layers"), {kWhole, kLinear});
  v["full_every"] = c.size("full_attention_interval", 4);
  if (!types.empty()) {
    const auto whole = regular(c, "layer_types", types, kWhole);
    if (whole.every == 0 || whole.offset != 0 || whole.first != 0)
      c.refuse("layer_types", std::string(kWhole) + " must stand at every so many places, as in the 4th, the 8th and so on");
    v["full_every"] = whole.every;
  }
  v["delta_key_heads"] = c.size("linear_num_key_heads", 16);
  v["delta_heads"] = c.size("linear_num_value_heads", 32);
  if (v.at("delta_heads") % v.at("delta_key_heads") != 0)
    c.refuse("linear_num_key_heads", "is " + std::to_string(v.at("delta_key_heads")) +
                                         ", which does not divide linear_num_value_heads=" + std::to_string(v.at("delta_heads")));
  v["delta_key_dim"] = c.size("linear_key_head_dim", 128);
  v["delta_dim"] = c.size("linear_value_head_dim", 128);
  v["conv"] = c.size("linear_conv_kernel_dim", 4);
}

void read_gated_attention(const Configuration& c, ZooValues& v, std::int64_t groups, const std::string& ffn = "intermediate_size") {
  read_gated_decoder(c, v, {groups, 256}, ffn);
  must_be_set(c, "attn_output_gate", true, true);
  read_bias(c, v);
  v["qk_norm"] = v["attn_gate"] = 1;
  read_rotary(c, v, 10'000, partial_rotary(c, 0.25));
  read_delta_layers(c, v);
}

/// Experts whose chosen share the softmax of their scores, and one for all tokens with a gate.
void read_gated_experts(const Configuration& c, ZooValues& v) {
  read_experts(c, v, "num_experts", "num_experts_per_tok");
  v["moe_ffn"] = c.size("moe_intermediate_size");
  v["shared_gate"] = 1;
  read_shared_width(c, v, "shared_expert_intermediate_size", 512);
  must_be_set(c, "norm_topk_prob", true, true);
  if (c.is_filled_list("mlp_only_layers")) c.refuse("mlp_only_layers", "only an empty list is built");
}

}  // namespace

void read_qwen3_next(const Configuration& c, ZooValues& v) {
  read_gated_attention(c, v, 2);
  read_gated_experts(c, v);
  v["moe_every"] = c.size("decoder_sparse_step", 1);
}

void read_qwen3_5(const Configuration& c, ZooValues& v) { read_gated_attention(c, v, 4); }

void read_qwen3_5_moe(const Configuration& c, ZooValues& v) {
  read_gated_attention(c, v, 2, "moe_intermediate_size");
  read_gated_experts(c, v);
}

namespace {

/// Angles of both kinds of layers: those with a window turn whole; the others the first so many pairs of a head that would.
void read_gemma4_rotary(const Configuration& c, ZooValues& v) {
  double whole_theta = 1'000'000, window_theta = 10'000, share = 0.25;
  bool proportional = true;
  if (c.is_object("rope_parameters")) {
    const auto all = c.part("rope_parameters");
    const auto whole = all.part(kWhole), sliding = all.part(kSliding);
    const auto kind = whole.text("rope_type", "default");
    proportional = kind == "proportional";
    if (!proportional && kind != "default") whole.refuse("rope_type", "is '" + kind + "'; only 'proportional' and 'default' are built");
    must_be(sliding, "rope_type", "default", "default");
    share = proportional ? whole.number("partial_rotary_factor", 1) : 1;
    whole_theta = whole.number("rope_theta", whole_theta);
    window_theta = sliding.number("rope_theta", window_theta);
  }
  v["theta"] = std::llround(whole_theta);
  v["window_theta"] = std::llround(window_theta);
  v["rotary_dim"] = turning(c, v.at("head_dim"), share);
  v["rotary_whole"] = proportional ? 1 : 0;
  v["window_rotary_dim"] = v.at("window_head_dim");
}

void read_gemma4_layers(const Configuration& c, ZooValues& v) {
  auto types = layer_types(c, "layer_types", v.at("layers"), {kWhole, kSliding});
  constexpr std::int64_t kPattern = 6;
  if (types.empty())
    for (std::int64_t layer = 1; layer <= v.at("layers"); ++layer) types.emplace_back(layer % kPattern == 0 ? kWhole : kSliding);
  types.back() = kWhole;
  v["window"] = c.size("sliding_window", 512);
  set_window(c, v, "layer_types", types);
}

}  // namespace

void read_gemma4(const Configuration& c, ZooValues& v) {
  must_be(c, "hidden_activation", "gelu_pytorch_tanh", "gelu_pytorch_tanh");
  if (c.text("use_bidirectional_attention", "") == "all")
    c.refuse("use_bidirectional_attention", "'all' is not built: tokens see those before them");
  if (const auto own = c.count("hidden_size_per_layer_input", 256); own != 0)
    c.refuse("hidden_size_per_layer_input", "is " + std::to_string(own) + "; only 0 is built");
  if (const auto shared = c.count("num_kv_shared_layers", 0); shared != 0)
    c.refuse("num_kv_shared_layers", "is " + std::to_string(shared) + "; only 0 is built");
  read_sizes(c, v);
  read_heads(c, v, {4, 256});
  const bool same = c.flag("attention_k_eq_v", false);
  v["window_kv_heads"] = v.at("kv_heads");
  if (same) v["kv_heads"] = c.size("num_global_key_value_heads", v.at("kv_heads"));
  if (v.at("heads") % v.at("kv_heads") != 0)
    c.refuse("num_global_key_value_heads", "does not divide num_attention_heads=" + std::to_string(v.at("heads")));
  v["window_head_dim"] = v.at("head_dim");
  v["head_dim"] = c.size("global_head_dim", 512);
  v["kv_same"] = same ? 1 : 0;
  v["tied"] = c.flag("tie_word_embeddings", true) ? 1 : 0;
  read_bias(c, v);
  v["act"] = v["embed_scale"] = v["norms"] = v["qk_norm"] = v["v_norm"] = v["query_scale"] = 1;
  v["logit_cap"] = cap_of(c, "final_logit_softcapping", 0);
  read_gemma4_rotary(c, v);
  read_gemma4_layers(c, v);
  if (!c.flag("enable_moe_block", false)) return;
  read_experts(c, v, "num_experts", "top_k_experts");
  v["moe_ffn"] = c.size("moe_intermediate_size");
  v["dense_beside"] = 1;
}

namespace {

/// 0 and 1 for every layer as two words.
std::vector<std::string> named(const Configuration& c, const std::string& key, std::int64_t layers, const char* zero, const char* one) {
  std::vector<std::string> types;
  for (const auto flag : c.counts(key)) types.emplace_back(flag == 0 ? zero : one);
  if (!types.empty() && static_cast<std::int64_t>(types.size()) != layers)
    c.refuse(key, "has " + std::to_string(types.size()) + " entries for num_hidden_layers=" + std::to_string(layers));
  return types;
}

/// How many 0 stand before the others, which are all 1.
std::int64_t leading_zeros(const Configuration& c, const std::string& key, std::int64_t layers, std::int64_t otherwise) {
  const auto flags = c.counts(key);
  if (flags.empty()) return otherwise;
  const auto count = std::ranges::find(flags, 1) - flags.begin();
  if (std::ssize(flags) != layers || std::count(flags.begin() + count, flags.end(), 1) != std::ssize(flags) - count ||
      std::count(flags.begin(), flags.begin() + count, 0) != count)
    c.refuse(key, "must have a number for every layer: 0 for the first ones, then 1");
  return count;
}

void read_mimo_window(const Configuration& c, ZooValues& v) {
  const auto layers = v.at("layers");
  auto types = layer_types(c, "layer_types", layers, {kWhole, kSliding});
  const bool listed = !types.empty();
  if (!listed) types = named(c, "hybrid_layer_pattern", layers, kWhole, kSliding);
  constexpr std::int64_t kPattern = 6;
  if (types.empty())
    for (std::int64_t layer = 0; layer < layers; ++layer) types.emplace_back(layer == 0 || (layer + 1) % kPattern == 0 ? kWhole : kSliding);
  // sliding_window_size counts the tokens before the query, sliding_window the query, too.
  v["window"] = c.has("sliding_window_size") ? c.size("sliding_window_size") + 1 : c.size("sliding_window", 129);
  set_window(c, v, listed ? "layer_types" : "hybrid_layer_pattern", types);
  v["window_heads"] = c.size("swa_num_attention_heads", v.at("heads"));
  v["window_kv_heads"] = c.size("swa_num_key_value_heads", 2 * v.at("kv_heads"));
  for (const auto& [own, all] : {std::pair{"swa_head_dim", "head_dim"}, std::pair{"swa_v_head_dim", "value_dim"}})
    if (const auto width = c.size(own, v.at(all)); width != v.at(all))
      c.refuse(own, "is " + std::to_string(width) + "; only " + std::to_string(v.at(all)) + ", the width in the other layers, is built");
}

}  // namespace

void read_mimo_v2_flash(const Configuration& c, ZooValues& v) {
  read_gated_decoder(c, v, {4, 192});
  v["value_dim"] = c.size("v_head_dim", 128);
  v["value_scale"] = std::llround(1000 * (c.absent("attention_value_scale") ? 0.707 : c.number("attention_value_scale", 1)));
  v["qkv_bias"] = c.flag("attention_bias", false) ? 1 : 0;
  must_be_set(c, "add_swa_attention_sink_bias", true, true);
  v["sinks"] = c.flag("add_full_attention_sink_bias", false) ? 1 : 2;
  v["theta"] = std::llround(theta(c, 5'000'000));
  v["window_theta"] = std::llround(c.number("swa_rope_theta", 10'000));
  v["rotary_dim"] = turning(c, v.at("head_dim"), partial_rotary(c, 0.334));
  read_mimo_window(c, v);
  read_routed(c, v, {});
  v["dense_layers"] = c.has("mlp_layer_types") ? leading(c, "mlp_layer_types", v.at("layers"), "dense", "sparse")
                                               : leading_zeros(c, "moe_layer_freq", v.at("layers"), 1);
  must_be(c, "scoring_func", "sigmoid", "sigmoid");
  must_be_set(c, "norm_topk_prob", true, true);
  v["gate"] = 1;
}

namespace {

/// The first of these keys that the file has; else the first.
std::string key_of(const Configuration& c, std::initializer_list<const char*> names) {
  const auto found = std::ranges::find_if(names, [&](const char* name) { return c.has(name); });
  return found == names.end() ? *names.begin() : *found;
}

/// The number of a kind of layer where the file may have one for every layer.
double of_layers(const Configuration& c, const std::string& key, const std::vector<std::string>& types, std::string_view type,
                 double otherwise) {
  const auto numbers = c.numbers(key);
  if (numbers.empty()) return otherwise;
  if (numbers.size() == 1) return numbers.front();
  if (numbers.size() < types.size())
    c.refuse(key, "has " + std::to_string(numbers.size()) + " entries for num_hidden_layers=" + std::to_string(types.size()));
  double found = 0;
  for (std::size_t layer = 0; layer < types.size(); ++layer) {
    if (types[layer] != type) continue;
    if (found != 0 && numbers[layer] != found) c.refuse(key, "must have one number for all layers of '" + std::string(type) + "'");
    found = numbers[layer];
  }
  return found != 0 ? found : otherwise;
}

/// Lists may have entries for the modules that predict further tokens, behind the others.
std::vector<std::string> step_layers(const Configuration& c, std::int64_t layers) {
  const auto further = c.count(key_of(c, {"num_nextn_predict_layers", "num_mtp_layers"}), 0);
  const bool padded = static_cast<std::int64_t>(c.texts("layer_types").size()) == layers + further;
  auto types = layer_types(c, "layer_types", padded ? layers + further : layers, {kWhole, kSliding});
  types.resize(static_cast<std::size_t>(layers), kWhole);
  return types;
}

void read_step_heads(const Configuration& c, ZooValues& v, const std::vector<std::string>& types) {
  v["theta"] = std::llround(of_layers(c, "rope_theta", types, kWhole, 10'000));
  v["rotary_dim"] = turning(c, v.at("head_dim"), of_layers(c, "partial_rotary_factors", types, kWhole, 1));
  if (std::ranges::count(types, kSliding) == 0) return;
  v["window"] = c.size("sliding_window");
  set_window(c, v, "layer_types", types);
  v["window_theta"] = std::llround(of_layers(c, "rope_theta", types, kSliding, static_cast<double>(v.at("theta"))));
  v["window_rotary_dim"] = turning(c, v.at("head_dim"), of_layers(c, "partial_rotary_factors", types, kSliding, 1));
  const char* const other = "attention_other_setting";
  const auto own = c.is_object(other) ? c.part(other).size("num_attention_heads", v.at("heads")) : v.at("heads");
  v["window_heads"] = c.size("num_sliding_attention_heads", own);
  if (v.at("window_heads") % v.at("kv_heads") != 0)
    c.refuse(c.is_object(other) ? other : "num_sliding_attention_heads",
             "has " + std::to_string(v.at("window_heads")) + " heads, which num_key_value_heads does not divide");
}

/// Numbers of the layers with experts: "3,4,5", to the last.
std::int64_t first_with_experts(const Configuration& c, std::int64_t layers) {
  if (c.has("mlp_layer_types")) return leading(c, "mlp_layer_types", layers, "dense", "sparse");
  const std::string key = "moe_layers_enum";
  if (!c.has(key)) return std::min<std::int64_t>(3, layers);
  const auto text = c.text(key, "");
  const auto first = static_cast<std::int64_t>(std::strtoll(text.c_str(), nullptr, 10));
  std::string expected;
  for (std::int64_t layer = first; layer < layers; ++layer) expected += (expected.empty() ? "" : ",") + std::to_string(layer);
  if (!text.starts_with(expected)) c.refuse(key, "must list the layers from one to the last, separated by commas: the others come first");
  return first;
}

}  // namespace

void read_step3(const Configuration& c, ZooValues& v) {
  read_sizes(c, v);
  must_be_set(c, "use_bidirectional_attention", false, false);
  v["heads"] = c.size("num_attention_heads");
  v["kv_heads"] = c.size(key_of(c, {"num_key_value_heads", "num_attention_groups"}), 8);
  v["head_dim"] = c.size("head_dim", 128);
  if (v.at("heads") % v.at("kv_heads") != 0) c.refuse("num_attention_heads", "is not a multiple of num_key_value_heads");
  v["tied"] = c.flag("tie_word_embeddings", false) ? 1 : 0;
  read_bias(c, v);
  v["qk_norm"] = 1;
  v["attn_gate"] = 2;
  if (c.has("query_pre_attn_scalar")) v["query_scale"] = c.size("query_pre_attn_scalar");
  read_step_heads(c, v, step_layers(c, v.at("layers")));
  read_experts(c, v, key_of(c, {"n_routed_experts", "moe_num_experts", "num_experts", "num_local_experts"}),
               key_of(c, {"num_experts_per_tok", "moe_top_k"}));
  v["moe_ffn"] = c.size("moe_intermediate_size");
  read_shared_width(c, v, key_of(c, {"share_expert_dim", "share_expert_dims"}), 1280);
  v["dense_layers"] = first_with_experts(c, v.at("layers"));
  v["gate_scale"] = std::llround(1000 * c.number("moe_router_scaling_factor", 1));
  v["gate"] = 1;
}

namespace {

/// By what one of many tokens is compressed in each layer: 0 where nothing is.
std::vector<std::int64_t> ratios_of(const Configuration& c, std::int64_t layers, std::int64_t few, std::int64_t many) {
  auto ratios = c.counts("compress_ratios");
  const char* const kFew = "compressed_sparse_attention";
  const char* const kMany = "heavily_compressed_attention";
  for (const auto& type : layer_types(c, "layer_types", layers, {kSliding, kFew, kMany}))
    ratios.push_back(type == kFew ? few : type == kMany ? many : 0);
  if (std::ssize(ratios) < layers)
    c.refuse("compress_ratios", "has " + std::to_string(ratios.size()) + " entries for num_hidden_layers=" + std::to_string(layers));
  ratios.resize(static_cast<std::size_t>(layers));  // modules that predict further tokens stand behind
  return ratios;
}

void read_compression(const Configuration& c, ZooValues& v) {
  constexpr std::int64_t kFirst = 2;
  v["few"] = 4;
  v["many"] = 128;
  if (c.is_object("compress_rates")) {
    const auto rates = c.part("compress_rates");
    v["few"] = rates.size("compressed_sparse_attention", 4);
    v["many"] = rates.size("heavily_compressed_attention", 128);
  }
  const auto ratios = ratios_of(c, v.at("layers"), v.at("few"), v.at("many"));
  v["first_many"] = ratios.front() == 0 ? 0 : 1;
  for (std::int64_t layer = 0; layer < v.at("layers"); ++layer) {
    const auto first = v.at("first_many") != 0 ? v.at("many") : 0;
    const auto expected = layer < kFirst ? first : v.at(layer % 2 == 0 ? "few" : "many");
    if (const auto ratio = ratios[static_cast<std::size_t>(layer)]; ratio != expected)
      c.refuse(c.has("layer_types") ? "layer_types" : "compress_ratios",
               "layer " + std::to_string(layer) + " has " + std::to_string(ratio) + "; built are two layers of 0 or of " +
                   std::to_string(v.at("many")) + ", then " + std::to_string(v.at("few")) + " and " + std::to_string(v.at("many")) +
                   " in turn");
  }
}

}  // namespace

void read_deepseek_v4(const Configuration& c, ZooValues& v) {
  must_be(c, "hidden_act", "silu", "silu");
  must_be(c, "scoring_func", "sqrtsoftplus", "sqrtsoftplus");
  must_be_set(c, "norm_topk_prob", true, true);
  must_be_set(c, "attention_bias", false, false);
  must_be_set(c, "mlp_bias", false, false);
  if (c.count("num_key_value_heads", 1) != 1) c.refuse("num_key_value_heads", "only 1 is built");
  read_sizes(c, v, "moe_intermediate_size");
  v.erase("ffn");
  v["heads"] = c.size("num_attention_heads");
  v["head_dim"] = c.size("head_dim", 512);
  v["rope_dim"] = c.size("qk_rope_head_dim", 64);
  v["q_lora"] = c.size("q_lora_rank", 1024);
  v["o_groups"] = c.size("o_groups", 8);
  v["o_lora"] = c.size("o_lora_rank", 1024);
  if (v.at("heads") % v.at("o_groups") != 0) c.refuse("o_groups", "does not divide num_attention_heads=" + std::to_string(v.at("heads")));
  v["window"] = c.size("sliding_window", 128);
  v["index_heads"] = c.size("index_n_heads", 64);
  v["index_dim"] = c.size("index_head_dim", 128);
  v["index_top"] = c.size("index_topk", 512);
  v["streams"] = c.size("hc_mult", 4);
  v["sinkhorn"] = c.size("hc_sinkhorn_iters", 20);
  v["theta"] = std::llround(theta(c, 10'000));
  v["compress_theta"] = std::llround(c.number("compress_rope_theta", 160'000));
  v["tied"] = c.flag("tie_word_embeddings", false) ? 1 : 0;
  read_experts(c, v, "n_routed_experts", "num_experts_per_tok");
  v["moe_ffn"] = c.size("moe_intermediate_size");
  if (c.count("n_shared_experts", 1) != 1) c.refuse("n_shared_experts", "only 1 is built");
  v["gate_scale"] = std::llround(1000 * c.number("routed_scaling_factor", 1.5));
  v["hash_layers"] =
      c.has("mlp_layer_types") ? leading(c, "mlp_layer_types", v.at("layers"), "hash_moe", "moe") : c.count("num_hash_layers", 3);
  read_compression(c, v);
}

namespace {

/// Blocks of tokens that an index chooses, in all layers but the first ones.
void read_chosen_blocks(const Configuration& c, ZooValues& v) {
  if (!c.is_object("sparse_attention_config")) {
    if (std::ranges::count(c.texts("layer_types"), "minimax_m3_sparse") > 0)
      c.refuse("sparse_attention_config", "is missing, and layer_types has layers whose tokens are chosen");
    return;
  }
  const auto sparse = c.part("sparse_attention_config");
  if (!sparse.flag("use_sparse_attention", true)) return;
  must_be(sparse, "sparse_score_type", "max", "max");
  if (sparse.count("sparse_init_block", 0) != 0) sparse.refuse("sparse_init_block", "only 0 is built");
  if (sparse.count("sparse_local_block", 1) != 1) sparse.refuse("sparse_local_block", "only 1 is built");
  v["index_from"] = leading_zeros(sparse, "sparse_attention_freq", v.at("layers"), 0);
  v["index_heads"] = sparse.size("sparse_num_index_heads", 4);
  if (v.at("index_heads") != v.at("kv_heads"))
    sparse.refuse("sparse_num_index_heads", "must be num_key_value_heads=" + std::to_string(v.at("kv_heads")));
  v["index_dim"] = sparse.size("sparse_index_dim", 128);
  v["index_block"] = sparse.size("sparse_block_size", 128);
  v["index_top"] = sparse.size("sparse_topk_blocks", 16);
  if (leading_zeros(sparse, "sparse_disable_index_value", v.at("layers"), v.at("index_from")) != v.at("index_from"))
    sparse.refuse("sparse_disable_index_value", "must be 1 where sparse_attention_freq is: an index with values of its own is not built");
}

}  // namespace

void read_minimax_m3(const Configuration& c, ZooValues& v) {
  if (const auto act = c.text("hidden_act", "silu"); act != "swigluoai" && act != "silu")
    c.refuse("hidden_act", "is '" + act + "'; only 'swigluoai' is built");
  must_be_set(c, "attention_output_gate", false, false);
  must_be_set(c, "use_qk_norm", true, true);
  must_be(c, "qk_norm_type", "per_head", "per_head");
  must_be(c, "scoring_func", "sigmoid", "sigmoid");
  read_sizes(c, v, "dense_intermediate_size");
  read_heads(c, v, {4, 128});
  v["tied"] = c.flag("tie_word_embeddings", false) ? 1 : 0;
  v["theta"] = std::llround(theta(c, 5'000'000));
  v["rotary_dim"] = c.size("rotary_dim", 64);
  if (v.at("rotary_dim") % 2 != 0 || v.at("rotary_dim") > v.at("head_dim"))
    c.refuse("rotary_dim", "is " + std::to_string(v.at("rotary_dim")) + ", which are no pairs of features of a head");
  v["qk_norm"] = 1;
  read_experts(c, v, "num_local_experts", "num_experts_per_tok");
  v["moe_ffn"] = c.size("intermediate_size");
  read_shared_width(c, v, "shared_intermediate_size", 3072);
  v["dense_layers"] = c.has("mlp_layer_types") ? leading(c, "mlp_layer_types", v.at("layers"), "dense", "sparse")
                                               : leading_zeros(c, "moe_layer_freq", v.at("layers"), 0);
  v["gate_scale"] = std::llround(1000 * c.number("routed_scaling_factor", 2));
  v["gate"] = 1;
  read_chosen_blocks(c, v);
}

}  // namespace rehearsal::formats
