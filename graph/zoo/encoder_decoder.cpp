// Vaswani et al., "Attention Is All You Need", 2017 (the translation model, embeddings of both languages and of the result shared), and
// Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer" (T5), 2020. Fully connected weights
// are [in, out].

#include <cmath>

#include "base/error.hpp"
#include "graph/zoo/attention.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kTransformer[] = {
    {"enc_layers", 6, 1, 10'000, "blocks of the encoder"},
    {"dec_layers", 6, 1, 10'000, "blocks of the decoder"},
    {"hidden", 1024, 2, 1'000'000, "width of the residual stream, even and a multiple of heads"},
    {"heads", 16, 1, 100'000, "attention heads"},
    {"ffn", 4096, 1, 10'000'000, "width of the feed-forward layer"},
    {"enc_seq", 32, 1, kLongestSequence, "tokens of a sample's source"},
    {"dec_seq", 32, 1, kLongestSequence, "tokens of a sample's result"},
    {"vocab", 37000, 2, 10'000'000, "tokens there are"},
    {"batch", 32, 1, 1'000'000'000, "samples"},
};
constexpr ZooParameter kT5[] = {
    {"enc_layers", 12, 1, 10'000, "blocks of the encoder"},
    {"dec_layers", 12, 1, 10'000, "blocks of the decoder"},
    {"hidden", 768, 1, 1'000'000, "width of the residual stream"},
    {"heads", 12, 1, 100'000, "attention heads"},
    {"kv_channels", 64, 1, 100'000, "features of a head"},
    {"ffn", 3072, 1, 10'000'000, "width of the feed-forward layer"},
    {"gated", 0, 0, 1, "1: feed-forward layer gelu(x A) * (x B), as in T5 1.1; 0: relu"},
    {"tied", 1, 0, 1, "1: the result uses the token embedding as its weight"},
    {"enc_seq", 512, 1, kLongestSequence, "tokens of a sample's source"},
    {"dec_seq", 128, 1, kLongestSequence, "tokens of a sample's result"},
    {"vocab", 32128, 2, 10'000'000, "tokens there are"},
    {"batch", 8, 1, 1'000'000'000, "samples"},
};
constexpr std::int64_t kBuckets = 32, kFarthest = 128;  ///< T5's relative positions

/// What both have in common: two stacks of blocks over one token embedding.
class EncoderDecoder {
 public:
  explicit EncoderDecoder(const ZooValues& v) : values_(v), hidden_(v.at("hidden")), heads_(v.at("heads")) {}

 protected:
  [[nodiscard]] std::int64_t value(const char* name) const { return values_.at(name); }

  void make_tokens() { tokens_ = layers_.parameter("shared.weight", {value("vocab"), hidden_}); }
  TensorId embed(const std::string& name, const std::string& input, std::int64_t length) {
    return layers_.node(name, "Gather", {tokens_, layers_.indices(input, {value("batch"), length})}, {{"axis", std::int64_t{0}}});
  }
  TensorId scores(TensorId x) { return layers_.product_with_rows("lm_head", x, tokens_); }

  const ZooValues& values_;
  std::int64_t hidden_, heads_;
  Layers layers_;
  TensorId tokens_ = TensorId::None;
};

class Transformer : EncoderDecoder {
 public:
  explicit Transformer(const ZooValues& v) : EncoderDecoder(v) {
    require_heads("transformer", hidden_, heads_, heads_);
    if (hidden_ % 2 != 0)
      throw BadInput("zoo:transformer", "hidden=" + std::to_string(hidden_) + " must be even: sines and cosines share it");
  }

  Graph build() && {
    make_tokens();
    self_ = cross_ = make_attention(layers_, heads_, heads_, hidden_ / heads_);
    TensorId source = start("encoder", "input_ids", value("enc_seq"));
    for (std::int64_t i = 0; i < value("enc_layers"); ++i) {
      const std::string name = "encoder.layers." + std::to_string(i);
      source = feed_forward(name, attention(name + ".self_attn", source, source, self_));
    }
    TensorId x = start("decoder", "decoder_input_ids", value("dec_seq"));
    self_.mask = causal_mask(layers_, value("dec_seq"));
    for (std::int64_t i = 0; i < value("dec_layers"); ++i) {
      const std::string name = "decoder.layers." + std::to_string(i);
      x = attention(name + ".self_attn", x, x, self_);
      x = feed_forward(name, attention(name + ".cross_attn", x, source, cross_));
    }
    return std::move(layers_).finish(scores(x), "logits");
  }

 private:
  /// Embeddings times sqrt(hidden), plus sines and cosines of the position (section 3.5), dropped out.
  TensorId start(const std::string& name, const std::string& input, std::int64_t length) {
    const TensorId scaled = layers_.multiply(name + ".scaled", embed(name + ".embed", input, length),
                                             layers_.constant(name + ".scale", std::sqrt(static_cast<double>(hidden_))));
    const RotaryTables waves = make_rotary(layers_, name + ".waves", length, hidden_);
    const TensorId places = layers_.concat(name + ".positions", {waves.sine, waves.cosine}, 1);
    return layers_.dropout(name + ".dropout", layers_.add(name + ".placed", scaled, places), 0.1);
  }

  TensorId normed(const std::string& name, TensorId x, TensorId more) {
    return layers_.layer_norm(name + ".norm", layers_.add(name + ".residual", x, layers_.dropout(name + ".dropout", more, 0.1)));
  }

  TensorId attention(const std::string& name, TensorId x, TensorId source, const Attention& attention) {
    const Projections projected{layers_.dense(name + ".q_proj", x, hidden_), layers_.dense(name + ".k_proj", source, hidden_),
                                layers_.dense(name + ".v_proj", source, hidden_)};
    return normed(name, x, layers_.dense(name + ".out_proj", attend(layers_, name, projected, attention), hidden_));
  }

  TensorId feed_forward(const std::string& name, TensorId x) {
    const TensorId wide = layers_.relu(name + ".relu", layers_.dense(name + ".fc1", x, value("ffn")));
    return normed(name + ".ffn", x, layers_.dense(name + ".fc2", wide, hidden_));
  }

  Attention self_, cross_;
};

class T5 : EncoderDecoder {
 public:
  explicit T5(const ZooValues& v) : EncoderDecoder(v) {}

  Graph build() && {
    make_tokens();
    TensorId source = embed("encoder.embed", "input_ids", value("enc_seq"));
    Attention self = attention("encoder", value("enc_seq"), true);
    for (std::int64_t i = 0; i < value("enc_layers"); ++i) {
      const std::string name = "encoder.block." + std::to_string(i);
      source = feed_forward(name + ".ffn", attended(name + ".self", source, TensorId::None, self));
    }
    source = layers_.rms_norm("encoder.final_layer_norm", source, 1e-6);
    TensorId x = embed("decoder.embed", "decoder_input_ids", value("dec_seq"));
    self = attention("decoder", value("dec_seq"), false);
    self.mask = causal_mask(layers_, value("dec_seq"));
    self.masked = layers_.constant("decoder.masked", -1e30);
    Attention cross;
    cross.heads = cross.kv_heads = heads_;
    for (std::int64_t i = 0; i < value("dec_layers"); ++i) {
      const std::string name = "decoder.block." + std::to_string(i);
      x = attended(name + ".self", x, TensorId::None, self);
      x = feed_forward(name + ".ffn", attended(name + ".cross", x, source, cross));
    }
    x = layers_.rms_norm("decoder.final_layer_norm", x, 1e-6);
    if (value("tied") == 0) return std::move(layers_).finish(layers_.dense("lm_head", x, value("vocab"), false), "logits");
    const TensorId scale = layers_.constant("lm_head.scale", 1 / std::sqrt(static_cast<double>(hidden_)));
    return std::move(layers_).finish(scores(layers_.multiply("lm_head.scaled", x, scale)), "logits");
  }

 private:
  Attention attention(const std::string& stack, std::int64_t length, bool both_ways) {
    Attention attention;
    attention.heads = attention.kv_heads = heads_;
    const TensorId rows = layers_.embedding(stack + ".relative_attention_bias", buckets(stack, length, both_ways), kBuckets, heads_);
    attention.bias = layers_.transpose(stack + ".bias", rows, {2, 0, 1});
    return attention;
  }

  /// Near distances have a bucket each, farther ones share logarithmically (T5, section 2.1; as in its published code).
  TensorId buckets(const std::string& stack, std::int64_t length, bool both_ways) {
    const std::string n = stack + ".distance";
    const std::int64_t half = both_ways ? kBuckets / 2 : kBuckets;
    const auto number = [&](const char* name, double v) { return layers_.constant(n + name, v); };
    const TensorId ahead = layers_.node(
        n, "Sub", {positions(layers_, n + ".keys", {1, length}, DType::F32), positions(layers_, n + ".queries", {length, 1}, DType::F32)});
    const TensorId zero = number(".zero", 0);
    const TensorId far = both_ways ? layers_.node(n + ".abs", "Abs", {ahead})
                                   : layers_.node(n + ".back", "Max", {layers_.node(n + ".neg", "Neg", {ahead}), zero});
    const double exact = static_cast<double>(half) / 2;
    const TensorId least = layers_.node(n + ".least", "Max", {far, number(".one", 1)});
    const TensorId log = layers_.node(n + ".log", "Log", {layers_.multiply(n + ".share", least, number(".per", 1 / exact))});
    const double per_log = (static_cast<double>(half) - exact) / std::log(static_cast<double>(kFarthest) / exact);
    const TensorId steps = layers_.node(n + ".steps", "Floor", {layers_.multiply(n + ".scaled", log, number(".per_log", per_log))});
    const TensorId coarse =
        layers_.node(n + ".coarse", "Min",
                     {layers_.add(n + ".shifted", steps, number(".exact", exact)), number(".last", static_cast<double>(half - 1))});
    TensorId bucket =
        layers_.node(n + ".bucket", "Where", {layers_.node(n + ".is_near", "Less", {far, number(".near", exact)}), far, coarse});
    if (both_ways) {
      const TensorId later =
          layers_.node(n + ".later", "Where",
                       {layers_.node(n + ".is_later", "Greater", {ahead, zero}), number(".half", static_cast<double>(half)), zero});
      bucket = layers_.add(n + ".both", bucket, later);
    }
    return layers_.node(n + ".index", "Cast", {bucket}, {{"to", std::string("i64")}});
  }

  /// Attention to `source`, or to x itself where there is none.
  TensorId attended(const std::string& name, TensorId x, TensorId source, const Attention& attention) {
    const std::int64_t features = heads_ * value("kv_channels");
    const TensorId normed = layers_.rms_norm(name + ".layer_norm", x, 1e-6), from = source == TensorId::None ? normed : source;
    const Projections projected{layers_.dense(name + ".q", normed, features, false), layers_.dense(name + ".k", from, features, false),
                                layers_.dense(name + ".v", from, features, false)};
    return layers_.add(name + ".residual", x, layers_.dense(name + ".o", attend(layers_, name, projected, attention), hidden_, false));
  }

  TensorId feed_forward(const std::string& name, TensorId x) {
    const TensorId normed = layers_.rms_norm(name + ".layer_norm", x, 1e-6);
    TensorId wide = layers_.dense(name + ".wi", normed, value("ffn"), false);
    if (value("gated") != 0)
      wide = layers_.multiply(name + ".gated", layers_.gelu(name + ".act", wide, true),
                              layers_.dense(name + ".wi_1", normed, value("ffn"), false));
    else
      wide = layers_.relu(name + ".act", wide);
    return layers_.add(name + ".residual", x, layers_.dense(name + ".wo", wide, hidden_, false));
  }
};

constexpr ZooRow kEncoderDecoderRows[] = {
    {"transformer", "Transformer for translation (Vaswani et al. 2017); the defaults are the big one", kTransformer,
     [](const ZooValues& values) { return Transformer(values).build(); }},
    {"t5", "T5 (Raffel et al. 2020); the defaults are T5-base", kT5, [](const ZooValues& values) { return T5(values).build(); }},
};

}  // namespace

std::span<const ZooRow> encoder_decoders() { return kEncoderDecoderRows; }

}  // namespace rehearsal::graph::zoo
