// Decoders later than GPT-2: GPT-NeoX (Black et al. 2022), MPT (MosaicML 2023), Llama (Touvron et al. 2023, Grattafiori et al. 2024)
// and Mixtral (Jiang et al. 2024). Fully connected weights are [in, out].

#include <cmath>

#include "base/error.hpp"
#include "graph/zoo/attention.hpp"
#include "graph/zoo/experts.hpp"
#include "graph/zoo/models.hpp"

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
  return {"hidden", n, 1, 1'000'000, "width of the residual stream, a multiple of heads"};
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
constexpr ZooParameter kBatch = {"batch", 1, 1, 1'000'000'000, "samples"};

constexpr ZooParameter kNeox[] = {layers_default(32),   hidden_default(4096), heads_default(32),  ffn_default(0),        seq_default(2048),
                                  vocab_default(50432), tied_default(0),      rotary_default(25), theta_default(10'000), kBatch};
constexpr ZooParameter kMpt[] = {layers_default(32),   hidden_default(4096), heads_default(32),
                                 kv_heads_default(0),  ffn_default(0),       seq_default(2048),
                                 vocab_default(50432), tied_default(1),      kBatch};
constexpr ZooParameter kLlama[] = {layers_default(32),
                                   hidden_default(4096),
                                   heads_default(32),
                                   kv_heads_default(0),
                                   ffn_default(11008),
                                   seq_default(2048),
                                   vocab_default(32000),
                                   tied_default(0),
                                   rotary_default(100),
                                   theta_default(10'000),
                                   kBatch};
constexpr ZooParameter kMoe[] = {
    layers_default(32),
    hidden_default(4096),
    heads_default(32),
    kv_heads_default(8),
    ffn_default(14336),
    seq_default(2048),
    vocab_default(32000),
    tied_default(0),
    rotary_default(100),
    theta_default(1'000'000),
    {"experts", 8, 2, 10'000, "feed-forward layers to choose from"},
    {"top_k", 2, 1, 1000, "experts of a token"},
    {"capacity", 125, 1, 100'000, "percent of an even share that an expert takes of a sample's tokens; the others skip it"},
    {"balance", 0, 0, 1,
     "1: an output of this name, to be added to the loss (--loss cross-entropy+0.01*balance): how unevenly experts are chosen"},
    kBatch};

class Decoder {
 public:
  Decoder(const Style& style, const ZooValues& v) : style_(style), values_(v), hidden_(v.at("hidden")), heads_(v.at("heads")) {
    kv_heads_ = value("kv_heads", 0) == 0 ? heads_ : value("kv_heads", 0);
    ffn_ = v.at("ffn") == 0 ? 4 * hidden_ : v.at("ffn");
    require_heads(std::string(style.model), hidden_, heads_, kv_heads_);
    if (style.alibi && kv_heads_ != heads_)
      throw BadInput("zoo:" + std::string(style.model),
                     "kv_heads=" + std::to_string(kv_heads_) + " must be heads=" + std::to_string(heads_) + " or 0");
  }

  Graph build() && {
    const std::int64_t vocab = values_.at("vocab");
    const TensorId ids = layers_.indices("input_ids", {values_.at("batch"), values_.at("seq")});
    const TensorId tokens = layers_.parameter("embed.weight", {vocab, hidden_});
    TensorId x = layers_.node("embed", "Gather", {tokens, ids}, {{"axis", std::int64_t{0}}});
    prepare_attention();
    for (std::int64_t layer = 0; layer < values_.at("layers"); ++layer) x = block("layers." + std::to_string(layer), x);
    x = norm("norm", x);
    const TensorId scores = values_.at("tied") != 0 ? layers_.matmul("lm_head", x, layers_.transpose("lm_head.transpose", tokens, {1, 0}))
                                                    : layers_.dense("lm_head", x, vocab, false);
    if (balance_ == TensorId::None) return std::move(layers_).finish(scores, "logits");
    return std::move(layers_).finish(std::vector{scores, balance_}, {"logits", "balance"});
  }

 private:
  [[nodiscard]] std::int64_t value(std::string_view name, std::int64_t otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }

  void prepare_attention() {
    const std::int64_t width = hidden_ / heads_, seq = values_.at("seq");
    attention_ = make_attention(layers_, heads_, kv_heads_, width);
    attention_.mask = causal_mask(layers_, seq);
    const std::int64_t turning = width * value("rotary", 0) / 100;
    if (value("rotary", 0) > 0 && (turning == 0 || turning % 2 != 0))
      throw BadInput("zoo:" + std::string(style_.model),
                     "rotary positions turn pairs of a head's features, but rotary=" + std::to_string(value("rotary", 0)) +
                         " percent of hidden/heads=" + std::to_string(width) + " are " + std::to_string(turning));
    if (turning > 0) attention_.rotary = make_rotary(layers_, "rotary", seq, turning, static_cast<double>(values_.at("theta")));
    if (style_.alibi) attention_.bias = distance_bias(seq);
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

  TensorId attention(const std::string& name, TensorId x) {
    const std::int64_t kv = hidden_ / heads_ * kv_heads_;
    Projections projected{};
    if (style_.packed) {
      const auto parts =
          layers_.split(name + ".split", layers_.dense(name + ".qkv", x, hidden_ + 2 * kv, style_.bias), 2, {hidden_, kv, kv});
      projected = {parts[0], parts[1], parts[2]};
    } else {
      projected = {layers_.dense(name + ".q_proj", x, hidden_, style_.bias), layers_.dense(name + ".k_proj", x, kv, style_.bias),
                   layers_.dense(name + ".v_proj", x, kv, style_.bias)};
    }
    return layers_.dense(name + ".o_proj", attend(layers_, name, projected, attention_), hidden_, style_.bias);
  }

  TensorId feed_forward(const std::string& name, TensorId x) {
    if (values_.contains("experts")) {
      const Experts experts{values_.at("experts"), values_.at("top_k"), values_.at("capacity"), ffn_, values_.at("balance") != 0};
      const auto mixed = mixture_of_experts(layers_, name, x, experts);
      if (experts.balance) balance_ = balance_ == TensorId::None ? mixed.balance : layers_.add(name + ".balances", balance_, mixed.balance);
      return mixed.result;
    }
    TensorId wide = TensorId::None;
    if (style_.gated) {
      const TensorId gate = layers_.silu(name + ".act", layers_.dense(name + ".gate_proj", x, ffn_, style_.bias));
      wide = layers_.multiply(name + ".gated", gate, layers_.dense(name + ".up_proj", x, ffn_, style_.bias));
    } else {
      wide = layers_.gelu(name + ".act", layers_.dense(name + ".up_proj", x, ffn_, style_.bias));
    }
    return layers_.dense(name + ".down_proj", wide, hidden_, style_.bias);
  }

  TensorId block(const std::string& name, TensorId x) {
    const TensorId attended = layers_.add(name + ".attn.residual", x, attention(name + ".attn", norm(name + ".norm_1", x)));
    const TensorId source = style_.parallel ? x : attended;
    return layers_.add(name + ".mlp.residual", attended, feed_forward(name + ".mlp", norm(name + ".norm_2", source)));
  }

  const Style& style_;
  const ZooValues& values_;
  std::int64_t hidden_, heads_, kv_heads_ = 1, ffn_ = 1;
  Layers layers_;
  Attention attention_;
  TensorId balance_ = TensorId::None;  ///< of all layers so far
};

constexpr Style kNeoxStyle{.model = "gpt-neox", .parallel = true};
constexpr Style kMptStyle{.model = "mpt", .bias = false, .alibi = true};
constexpr Style kLlamaStyle{.model = "llama", .rms = true, .bias = false, .gated = true, .packed = false};
constexpr Style kMoeStyle{.model = "moe", .rms = true, .bias = false, .gated = true, .packed = false};

template <const Style& kStyle>
Graph decoder(const ZooValues& values) {
  return Decoder(kStyle, values).build();
}

constexpr ZooRow kRows[] = {
    {"gpt-neox", "GPT-NeoX (Black et al. 2022): rotary positions, attention beside the feed-forward layer; the defaults are Pythia 6.9B",
     kNeox, decoder<kNeoxStyle>},
    {"mpt", "MPT (MosaicML 2023): ALiBi, no biases; the defaults are MPT-7B", kMpt, decoder<kMptStyle>},
    {"llama", "Llama (Touvron et al. 2023): RMS norm, rotary positions, gated feed-forward, grouped queries; the defaults are Llama-7B",
     kLlama, decoder<kLlamaStyle>},
    {"moe", "Mixtral (Jiang et al. 2024): Llama with experts of limited capacity (Lepikhin et al., GShard, 2020); the defaults are 8x7B",
     kMoe, decoder<kMoeStyle>},
};

}  // namespace

std::span<const ZooRow> decoders() { return kRows; }

}  // namespace rehearsal::graph::zoo
