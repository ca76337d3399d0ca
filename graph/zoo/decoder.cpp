// Decoders later than GPT-2: GPT-NeoX (Black et al. 2022), MPT (MosaicML 2023), Llama (Touvron et al. 2023, Grattafiori et al. 2024)
// and what came of it (Qwen2, Qwen3), Mixtral (Jiang et al. 2024) and later mixtures of experts (DeepSeek-V3, Qwen3). Fully connected
// weights are [in, out].

#include <cmath>

#include "base/error.hpp"
#include "graph/losses.hpp"
#include "graph/zoo/attention.hpp"
#include "graph/zoo/experts.hpp"
#include "graph/zoo/latent_attention.hpp"
#include "graph/zoo/models.hpp"
#include "graph/zoo/token_choice.hpp"

namespace rehearsal::graph::zoo {
namespace {

/// What distinguishes one decoder from another.
struct Style {
  std::string_view model;
  bool rms = false;       ///< RMS instead of layer normalization
  bool bias = true;       ///< of products and layer normalizations
  bool parallel = false;  ///< attention and feed-forward layer both read the block's input
  bool gated = false;     ///< feed-forward layer silu(x A) * (x B) (Shazeer, "GLU Variants", 2020), else gelu
  bool alibi = false;     ///< scores fall with distance (Press et al. 2021)
  bool packed = true;     ///< one product gives queries, keys and values
};

constexpr ZooParameter layers_default(std::int64_t n) { return {"layers", n, 1, 10'000, "transformer blocks"}; }
constexpr ZooParameter hidden_default(std::int64_t n) {
  return {"hidden", n, 1, 1'000'000, "width of the residual stream, a multiple of heads unless head_dim is given"};
}
constexpr ZooParameter heads_default(std::int64_t n) { return {"heads", n, 1, 100'000, "attention heads"}; }
constexpr ZooParameter kv_heads_default(std::int64_t n) {
  return {"kv_heads", n, 0, 100'000, "heads of keys and values; 0: as many as heads"};
}
constexpr ZooParameter ffn_default(std::int64_t n) { return {"ffn", n, 0, 10'000'000, "width of the feed-forward layer; 0: 4 hidden"}; }
constexpr ZooParameter seq_default(std::int64_t n) { return {"seq", n, 1, 1'000'000, "tokens of a sample"}; }
constexpr ZooParameter vocab_default(std::int64_t n) { return {"vocab", n, 2, 10'000'000, "tokens there are"}; }
constexpr ZooParameter tied_default(std::int64_t n) { return {"tied", n, 0, 1, "1: the result uses the token embedding as its weight"}; }
constexpr ZooParameter rotary_default(std::int64_t n) {
  return {"rotary", n, 0, 100, "percent of a head's features that turn with the position"};
}
constexpr ZooParameter theta_default(std::int64_t n) { return {"theta", n, 2, 1'000'000'000, "base of the rotary frequencies"}; }
constexpr ZooParameter kHeadDim = {"head_dim", 0, 0, 100'000, "features of a head; 0: hidden / heads"};
constexpr ZooParameter kQkvBias = {"qkv_bias", 0, 0, 1, "1: queries, keys and values have biases (Qwen2)"};
constexpr ZooParameter kOBias = {"o_bias", 0, 0, 1, "1: the product after the attention has a bias"};
constexpr ZooParameter kQkNorm = {"qk_norm", 0, 0, 3,
                                  "RMS norm of queries and keys: 1 over a head's features (Qwen3), 2 over those of all heads (MiniMax-M2), "
                                  "3 as 1 without weights (Llama 4)"};
constexpr ZooParameter kNopeEvery = {"nope_every", 0, 0, 10'000,
                                     "every so many layers one has neither positions nor norms of queries and keys (Llama 4); 0: none"};
constexpr ZooParameter kDecoderWindow = {"window", 0, 0, 1'000'000, "tokens that a token sees, itself included; 0: all before it"};
constexpr ZooParameter kWindowEvery = {"window_every", 0, 0, 10'000, "every so many layers one sees all tokens; 0: none does"};
constexpr ZooParameter kWindowTheta = {"window_theta", 0, 0, 1'000'000'000,
                                       "base of the rotary frequencies in layers with a window (Gemma 3); 0: theta"};
constexpr ZooParameter kAct = {"act", 0, 0, 1, "of the gate in the feed-forward layer: 0 silu, 1 gelu by tanh (Gemma)"};
constexpr ZooParameter kNorms = {
    "norms", 0, 0, 2,
    "where a block normalizes: 0 what attention and feed-forward layer take, 1 that and what they give (Gemma 2), "
    "2 what they give (OLMo 2)"};
constexpr ZooParameter kScoreCap = {"score_cap", 0, 0, 1'000'000,
                                    "scores of the attention are bent below it by tanh (Gemma 2); 0: they are not"};
constexpr ZooParameter kLogitCap = {"logit_cap", 0, 0, 1'000'000, "the result is bent below it by tanh (Gemma 2); 0: it is not"};
constexpr ZooParameter kEmbedScale = {"embed_scale", 0, 0, 1, "1: embeddings are multiplied by the root of hidden (Gemma)"};
constexpr ZooParameter kQueryScale = {"query_scale", 0, 0, 1'000'000, "scores are divided by its root; 0: by that of head_dim"};
constexpr ZooParameter kDecoderBatch = {"batch", 1, 1, 1'000'000'000, "samples"};

constexpr ZooParameter kNeox[] = {layers_default(32),   hidden_default(4096), heads_default(32),  ffn_default(0),        seq_default(2048),
                                  vocab_default(50432), tied_default(0),      rotary_default(25), theta_default(10'000), kDecoderBatch};
constexpr ZooParameter kMpt[] = {layers_default(32), hidden_default(4096), heads_default(32), kv_heads_default(0), ffn_default(0),
                                 seq_default(2048),  vocab_default(50432), tied_default(1),   kDecoderBatch};
constexpr ZooParameter kDecoderLlama[] = {layers_default(32),
                                          hidden_default(4096),
                                          heads_default(32),
                                          kv_heads_default(0),
                                          kHeadDim,
                                          ffn_default(11008),
                                          seq_default(2048),
                                          vocab_default(32000),
                                          tied_default(0),
                                          rotary_default(100),
                                          theta_default(10'000),
                                          kQkvBias,
                                          kOBias,
                                          kQkNorm,
                                          kDecoderWindow,
                                          kWindowEvery,
                                          kWindowTheta,
                                          kAct,
                                          kNorms,
                                          kScoreCap,
                                          kLogitCap,
                                          kEmbedScale,
                                          kQueryScale,
                                          kDecoderBatch};
constexpr ZooParameter kMoe[] = {
    layers_default(32),
    hidden_default(4096),
    heads_default(32),
    kv_heads_default(8),
    kHeadDim,
    {"ffn", 14336, 0, 10'000'000, "width of the feed-forward layer of blocks without experts; 0: 4 hidden"},
    seq_default(2048),
    vocab_default(32000),
    tied_default(0),
    rotary_default(100),
    theta_default(1'000'000),
    kQkvBias,
    kOBias,
    {"sinks", 0, 0, 1, "1: every head has a score more that takes part in the softmax, and no value (gpt-oss)"},
    kQkNorm,
    kDecoderWindow,
    kWindowEvery,
    kNopeEvery,
    {"experts", 8, 2, 10'000, "feed-forward layers to choose from"},
    {"top_k", 2, 1, 1000, "experts of a token"},
    {"moe_ffn", 0, 0, 10'000'000, "width of an expert; 0: ffn"},
    {"shared_experts", 0, 0, 1000, "experts that every token goes to, beside the chosen ones (DeepSeekMoE, Dai et al. 2024)"},
    {"dense_layers", 0, 0, 10'000, "first blocks that have no experts"},
    {"moe_every", 1, 1, 10'000, "every so many blocks one has experts"},
    {"gate", 0, 0, 3,
     "what weighs the chosen: 0 the softmax of their scores, 1 shares of their sigmoids (DeepSeek-V3), 2 sigmoids, of what they get (Llama "
     "4), 3 the softmax of all scores (DeepSeek-V2)"},
    {"gate_scale", 1000, 1, 1'000'000, "thousandths by which the weights of the chosen are multiplied"},
    {"expert_bias", 0, 0, 1, "1: the gate and the experts' products have biases (gpt-oss)"},
    {"capacity", 125, 1, 100'000, "percent of an even share that an expert takes of a sample's tokens; the others skip it"},
    {"balance", 0, 0, 1,
     "1: an output of this name, to be added to the loss (--loss cross-entropy+0.01*balance): how unevenly experts are chosen"},
    {"kv_lora", 0, 0, 1'000'000, "width of the vector that keys and values come from (multi-head latent attention, DeepSeek-V2); 0: none"},
    {"q_lora", 0, 0, 1'000'000, "with kv_lora: width of the vector that queries come from; 0: from the block's input"},
    {"nope_dim", 128, 1, 100'000, "with kv_lora: features of a head's queries and keys without position"},
    {"rope_dim", 64, 2, 100'000, "with kv_lora: features of a head's queries, and of one key for all, that turn with the position"},
    {"v_dim", 128, 1, 100'000, "with kv_lora: features of a head's values"},
    {"index_heads", 0, 0, 10'000,
     "with q_lora: heads of an index that chooses the tokens which a query sees (DeepSeek-V3.2); 0: all are seen"},
    {"index_dim", 128, 2, 100'000, "with index_heads: their features"},
    {"index_top", 2048, 1, 1'000'000, "with index_heads: tokens that a query sees"},
    {"index_first", 0, 0, 10'000, "with index_heads: first blocks that choose by themselves (GLM-5.2)"},
    {"index_every", 1, 1, 10'000, "with index_heads: behind them every so many blocks one chooses, the others see what it chose"},
    {"mtp", 0, 0, 100,
     "modules that predict a further token each (DeepSeek-V3), with an output of this name: --loss cross-entropy+0.3*mtp"},
    kDecoderBatch};

class Decoder {
 public:
  Decoder(const Style& style, const ZooValues& v) : style_(style), values_(v), hidden_(v.at("hidden")), heads_(v.at("heads")) {
    kv_heads_ = value("kv_heads", 0) == 0 ? heads_ : value("kv_heads", 0);
    ffn_ = v.at("ffn") == 0 ? 4 * hidden_ : v.at("ffn");
    latent_ = value("kv_lora", 0) > 0;
    check_heads();
    width_ = latent_ ? v.at("nope_dim") + v.at("rope_dim") : value("head_dim", 0) > 0 ? value("head_dim", 0) : hidden_ / heads_;
  }

  Graph build() && {
    const std::int64_t vocab = values_.at("vocab");
    const TensorId ids = layers_.indices("input_ids", {values_.at("batch"), values_.at("seq")});
    tokens_ = layers_.parameter("embed.weight", {vocab, hidden_});
    TensorId x = embedded("embed", ids);
    prepare_attention();
    for (std::int64_t layer = 0; layer < values_.at("layers"); ++layer) x = block("layers." + std::to_string(layer), x, layer);
    if (values_.at("tied") == 0) head_ = layers_.parameter("lm_head.weight", {hidden_, vocab});
    TensorId logits = scores("lm_head", norm("norm", x));
    if (value("logit_cap", 0) > 0) logits = capped(layers_, "lm_head.capped", logits, static_cast<double>(value("logit_cap", 0)));
    std::vector<TensorId> results{logits};
    std::vector<std::string> names{"logits"};
    if (value("mtp", 0) > 0) {
      results.push_back(further_tokens(ids, x));
      names.emplace_back("mtp");
    }
    if (balance_ != TensorId::None) {
      results.push_back(balance_);
      names.emplace_back("balance");
    }
    return std::move(layers_).finish(results, names);
  }

 private:
  [[nodiscard]] std::int64_t value(std::string_view name, std::int64_t otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }
  [[noreturn]] void refuse(const std::string& why) const { throw BadInput("zoo:" + std::string(style_.model), why); }

  void check_heads() const {
    const bool own_width = latent_ || value("head_dim", 0) > 0;
    require_heads(std::string(style_.model), own_width ? heads_ : hidden_, heads_, kv_heads_);
    if (style_.alibi && kv_heads_ != heads_)
      refuse("kv_heads=" + std::to_string(kv_heads_) + " must be heads=" + std::to_string(heads_) + " or 0");
    if (value("index_heads", 0) > 0 && (!latent_ || value("q_lora", 0) == 0))
      refuse("index_heads=" + std::to_string(value("index_heads", 0)) +
             " needs kv_lora and q_lora: an index scores by what queries come from");
    if (value("index_heads", 0) > 0 && (value("index_dim", 0) < value("rope_dim", 0) || value("window", 0) > 0))
      refuse(value("window", 0) > 0 ? "window has no meaning with index_heads; leave it out"
                                    : "index_dim=" + std::to_string(value("index_dim", 0)) +
                                          " must be at least rope_dim=" + std::to_string(value("rope_dim", 0)) + ", which of it turns");
    if (!latent_) return;
    if (kv_heads_ != heads_)
      refuse("kv_heads=" + std::to_string(kv_heads_) + ": with kv_lora every head has keys and values of its own; give kv_heads=0");
    for (const char* other : {"head_dim", "qk_norm", "qkv_bias", "o_bias", "sinks", "nope_every"})
      if (values_.at(other) != 0)
        refuse(std::string(other) + "=" + std::to_string(values_.at(other)) + " has no meaning with kv_lora; leave it out");
    if (values_.at("rope_dim") % 2 != 0)
      refuse("rope_dim=" + std::to_string(values_.at("rope_dim")) + " must be even: features turn in pairs");
  }

  TensorId embedded(const std::string& name, TensorId ids) {
    const TensorId rows = layers_.node(name, "Gather", {tokens_, ids}, {{"axis", std::int64_t{0}}});
    if (value("embed_scale", 0) == 0) return rows;
    return layers_.multiply(name + ".scaled", rows, layers_.constant(name + ".scale", std::sqrt(static_cast<double>(hidden_))));
  }
  TensorId scores(const std::string& name, TensorId x) {
    return layers_.matmul(name, x, head_ != TensorId::None ? head_ : layers_.transpose(name + ".transpose", tokens_, {1, 0}));
  }

  void prepare_attention() {
    const std::int64_t seq = values_.at("seq");
    attention_ = make_attention(layers_, heads_, kv_heads_, value("query_scale", 0) > 0 ? value("query_scale", 0) : width_);
    attention_.cap = static_cast<double>(value("score_cap", 0));
    attention_.mask = causal_mask(layers_, seq);
    attention_.norm = static_cast<HeadNorm>(value("qk_norm", 0));
    if (const std::int64_t window = value("window", 0); window > 0 && window < seq) near_mask_ = window_mask(window, seq);
    const std::int64_t turning = latent_ ? values_.at("rope_dim") : width_ * value("rotary", 0) / 100;
    if (!latent_ && value("rotary", 0) > 0 && (turning == 0 || turning % 2 != 0))
      refuse("rotary positions turn pairs of a head's features, but rotary=" + std::to_string(value("rotary", 0)) + " percent of " +
             (value("head_dim", 0) > 0 ? "head_dim=" : "hidden/heads=") + std::to_string(width_) + " are " + std::to_string(turning));
    if (turning > 0) attention_.rotary = make_rotary(layers_, "rotary", seq, turning, static_cast<double>(values_.at("theta")));
    if (turning > 0 && value("window_theta", 0) > 0)
      near_rotary_ = make_rotary(layers_, "window.rotary", seq, turning, static_cast<double>(value("window_theta", 0)));
    if (style_.alibi) attention_.bias = distance_bias(seq);
  }

  /// True where the key is at most window - 1 tokens before the query (Beltagy et al., "Longformer", 2020; Mistral 7B).
  TensorId window_mask(std::int64_t window, std::int64_t seq) {
    const TensorId last = layers_.node(
        "window.last", "Sub",
        {positions(layers_, "window.rows", {seq, 1}, DType::F32), layers_.constant("window.size", static_cast<double>(window))});
    const TensorId near = layers_.node("window", "Greater", {positions(layers_, "window.columns", {1, seq}, DType::F32), last});
    return layers_.node("window.causal", "And", {attention_.mask, near});
  }

  /// slope of the head · (key's position - last position): a shift that is the same for all keys does not change the softmax.
  TensorId distance_bias(std::int64_t seq) {
    std::vector<double> slopes(static_cast<std::size_t>(heads_));
    for (std::size_t h = 0; h < slopes.size(); ++h) slopes[h] = std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(heads_));
    const TensorId slope = layers_.builder().add_constant("alibi.slopes", Value::of_reals(slopes, {heads_, 1, 1}));
    const TensorId last = layers_.constant("alibi.last", static_cast<double>(seq - 1));
    const TensorId distance = layers_.node("alibi.distance", "Sub", {positions(layers_, "alibi.keys", {1, 1, seq}, DType::F32), last});
    return layers_.multiply("alibi", slope, distance);
  }

  TensorId norm(const std::string& name, TensorId x) {
    return style_.rms ? layers_.rms_norm(name, x) : layers_.layer_norm(name, x, style_.bias);
  }

  [[nodiscard]] Attention attention_of(std::int64_t layer) const {
    Attention own = attention_;
    const std::int64_t every = value("window_every", 0);
    const bool near = value("window", 0) > 0 && (every == 0 || (layer + 1) % every != 0);
    if (near && near_mask_ != TensorId::None) own.mask = near_mask_;
    if (near && near_rotary_.width > 0) own.rotary = near_rotary_;
    if (const std::int64_t still = value("nope_every", 0); still > 0 && (layer + 1) % still == 0) {
      own.rotary = {};
      own.norm = HeadNorm::None;
    }
    return own;
  }

  TensorId attention(const std::string& name, TensorId x, std::int64_t layer) {
    Attention own = attention_of(layer);
    if (value("sinks", 0) != 0) own.sinks = layers_.parameter(name + ".sinks", {heads_});
    if (latent_) {
      const LatentSizes sizes{value("q_lora", 0), value("kv_lora", 0), value("nope_dim", 0), value("rope_dim", 0), value("v_dim", 0)};
      const LatentInput input{x, narrow_queries(layers_, name, x, sizes)};
      if (value("index_heads", 0) > 0) own.mask = seen_by(layer, name, input);
      return layers_.dense(name + ".o_proj", attend_latent(layers_, name, input, sizes, own), hidden_, style_.bias);
    }
    return layers_.dense(name + ".o_proj", attend(layers_, name, projections(name, x, own), own), hidden_,
                         style_.bias || value("o_bias", 0) != 0);
  }

  /// The mask of a block's own choice of tokens, or of the last one before it.
  TensorId seen_by(std::int64_t layer, const std::string& name, const LatentInput& input) {
    const std::int64_t first = value("index_first", 0), every = value("index_every", 1);
    if (seen_ == TensorId::None || layer < first || (layer - first + 1) % every == 0)
      seen_ = chosen_tokens(layers_, name + ".indexer", input, {value("index_heads", 0), value("index_dim", 0), value("index_top", 0)},
                            attention_);
    return seen_;
  }

  Projections projections(const std::string& name, TensorId x, const Attention& own) {
    const std::int64_t all = width_ * heads_, kv = width_ * kv_heads_;
    const bool bias = style_.bias || value("qkv_bias", 0) != 0;
    if (!style_.packed) {
      Projections p{layers_.dense(name + ".q_proj", x, all, bias), layers_.dense(name + ".k_proj", x, kv, bias),
                    layers_.dense(name + ".v_proj", x, kv, bias)};
      if (own.norm == HeadNorm::OfHeads) p = {layers_.rms_norm(name + ".q_norm", p.q), layers_.rms_norm(name + ".k_norm", p.k), p.v};
      return p;
    }
    const auto parts = layers_.split(name + ".split", layers_.dense(name + ".qkv", x, all + 2 * kv, bias), 2, {all, kv, kv});
    return {parts[0], parts[1], parts[2]};
  }

  TensorId plain_feed_forward(const std::string& name, TensorId x, std::int64_t ffn) {
    TensorId wide = TensorId::None;
    if (style_.gated) {
      const TensorId product = layers_.dense(name + ".gate_proj", x, ffn, style_.bias);
      const TensorId gate = value("act", 0) == 0 ? layers_.silu(name + ".act", product) : layers_.gelu(name + ".act", product, true);
      wide = layers_.multiply(name + ".gated", gate, layers_.dense(name + ".up_proj", x, ffn, style_.bias));
    } else {
      wide = layers_.gelu(name + ".act", layers_.dense(name + ".up_proj", x, ffn, style_.bias));
    }
    return layers_.dense(name + ".down_proj", wide, hidden_, style_.bias);
  }

  TensorId feed_forward(const std::string& name, TensorId x, std::int64_t layer) {
    const bool has_experts = value("experts", 0) > 0 && layer >= value("dense_layers", 0) && (layer + 1) % value("moe_every", 1) == 0;
    if (!has_experts) return plain_feed_forward(name, x, ffn_);
    Experts experts{values_.at("experts"), values_.at("top_k"), values_.at("capacity"), ffn_, values_.at("balance") != 0};
    if (values_.at("moe_ffn") > 0) experts.ffn = values_.at("moe_ffn");
    experts.gate = static_cast<Gate>(values_.at("gate"));
    experts.scale = static_cast<double>(values_.at("gate_scale")) / 1000;
    experts.bias = values_.at("expert_bias") != 0;
    const auto mixed = mixture_of_experts(layers_, name, x, experts);
    if (experts.balance) balance_ = balance_ == TensorId::None ? mixed.balance : layers_.add(name + ".balances", balance_, mixed.balance);
    if (values_.at("shared_experts") == 0) return mixed.result;
    return layers_.add(name + ".both", mixed.result, plain_feed_forward(name + ".shared", x, values_.at("shared_experts") * experts.ffn));
  }

  TensorId block(const std::string& name, TensorId x, std::int64_t layer) {
    const std::int64_t norms = value("norms", 0);
    const auto before = [&](const char* part, TensorId t) { return norms == 2 ? t : norm(name + part, t); };
    const auto behind = [&](const char* part, TensorId t) { return norms == 0 ? t : norm(name + part, t); };
    const TensorId given = behind(".norm_1b", attention(name + ".attn", before(".norm_1", x), layer));
    const TensorId attended = layers_.add(name + ".attn.residual", x, given);
    const TensorId source = style_.parallel ? x : attended;
    return layers_.add(name + ".mlp.residual", attended, behind(".norm_2b", feed_forward(name + ".mlp", before(".norm_2", source), layer)));
  }

  /// tokens[:, by:], then `by` times `last`.
  TensorId shifted(const std::string& name, TensorId ids, std::int64_t by, std::int64_t last) {
    const std::int64_t batch = values_.at("batch"), seq = values_.at("seq");
    const TensorId rest = layers_.split(name + ".split", ids, 1, {by, seq - by}).back();
    const TensorId end = layers_.node(
        name + ".end", "ConstantOfShape", {},
        {{"shape", Shape{batch, by}}, {"value", static_cast<double>(last)}, {"dtype", std::string(rehearsal::name(DType::I64))}});
    return layers_.concat(name, {rest, end}, 1);
  }

  /// Multi-token prediction (DeepSeek-AI, "DeepSeek-V3", 2024, section 2.2): module k takes the state before it and the embedding of the
  /// token k places on, and predicts the one after that; its block is as the last one. The mean of the modules' cross-entropies.
  TensorId further_tokens(TensorId ids, TensorId state) {
    const std::int64_t modules = values_.at("mtp"), seq = values_.at("seq");
    constexpr std::int64_t kIgnored = -100;
    if (modules + 1 >= seq)
      refuse("mtp=" + std::to_string(modules) + " predicts tokens beyond seq=" + std::to_string(seq) + "; seq must be larger than mtp + 1");
    TensorId sum = TensorId::None;
    for (std::int64_t k = 1; k <= modules; ++k) {
      const std::string name = "mtp." + std::to_string(k - 1);
      const TensorId token = norm(name + ".norm_token", embedded(name + ".embed", shifted(name + ".ids", ids, k, 0)));
      const TensorId both = layers_.concat(name + ".joined", {token, norm(name + ".norm_state", state)}, 2);
      state = block(name, layers_.dense(name + ".proj", both, hidden_, false), values_.at("layers") - 1);
      const TensorId logits = scores(name + ".lm_head", norm(name + ".norm", state));
      const TensorId loss = add_cross_entropy(
          layers_.builder(),
          {.scores = logits, .target = shifted(name + ".target", ids, k + 1, kIgnored), .axis = 2, .ignore_index = kIgnored});
      sum = sum == TensorId::None ? loss : layers_.add(name + ".losses", sum, loss);
    }
    const TensorId share = layers_.builder().add_constant("mtp.share", Value::scalar(1.0 / static_cast<double>(modules), DType::F64));
    return layers_.multiply("mtp.mean", sum, share);
  }

  const Style& style_;
  const ZooValues& values_;
  std::int64_t hidden_, heads_, kv_heads_ = 1, ffn_ = 1, width_ = 1;  ///< width_: of a head's queries and keys
  bool latent_ = false;                                               ///< multi-head latent attention
  Layers layers_;
  Attention attention_;
  TensorId tokens_ = TensorId::None, head_ = TensorId::None;  ///< weights of the embedding and of the result, where it has its own
  TensorId seen_ = TensorId::None;                            ///< the last mask that an index chose
  TensorId near_mask_ = TensorId::None;                       ///< attention_.mask, of the tokens in the window
  Rotary near_rotary_;                                        ///< of layers with a window, where they have their own
  TensorId balance_ = TensorId::None;                         ///< of all layers so far
};

constexpr Style kNeoxStyle{.model = "gpt-neox", .parallel = true};
constexpr Style kMptStyle{.model = "mpt", .bias = false, .alibi = true};
constexpr Style kLlamaStyle{.model = "llama", .rms = true, .bias = false, .gated = true, .packed = false};
constexpr Style kMoeStyle{.model = "moe", .rms = true, .bias = false, .gated = true, .packed = false};

template <const Style& kStyle>
Graph decoder(const ZooValues& values) {
  return Decoder(kStyle, values).build();
}

constexpr ZooRow kDecoderRows[] = {
    {"gpt-neox", "GPT-NeoX (Black et al. 2022): rotary positions, attention beside the feed-forward layer; the defaults are Pythia 6.9B",
     kNeox, decoder<kNeoxStyle>},
    {"mpt", "MPT (MosaicML 2023): ALiBi, no biases; the defaults are MPT-7B", kMpt, decoder<kMptStyle>},
    {"llama", "Llama (Touvron et al. 2023): RMS norm, rotary positions, gated feed-forward, grouped queries; the defaults are Llama-7B",
     kDecoderLlama, decoder<kLlamaStyle>},
    {"moe",
     "Mixtral (Jiang et al. 2024): Llama with experts of limited capacity (Lepikhin et al., GShard, 2020); the defaults are 8x7B; with "
     "shared experts and latent attention DeepSeek-V3 (2024)",
     kMoe, decoder<kMoeStyle>},
};

}  // namespace

std::span<const ZooRow> decoders() { return kDecoderRows; }

}  // namespace rehearsal::graph::zoo
