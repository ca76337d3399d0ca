#include "graph/zoo/decoder_attention.hpp"

#include <cmath>

#include "base/error.hpp"
#include "graph/zoo/token_choice.hpp"

namespace rehearsal::graph::zoo {

void DecoderValues::refuse(const std::string& why) const { throw BadInput("zoo:" + std::string(style.model), why); }

DecoderAttention::DecoderAttention(Layers& layers, const DecoderValues& v)
    : layers_(layers),
      values_(v),
      latent_{v.at("q_lora"), v.at("kv_lora"), v.at("nope_dim"), v.at("rope_dim"), v.at("v_dim")},
      delta_{v.at("delta_key_heads"), v.at("delta_heads"), v.at("delta_key_dim"), v.at("delta_dim"), v.at("conv"), v.at("chunk")},
      hidden_(v.at("hidden")),
      seq_(v.at("seq")) {
  set_heads();
  check();
}

void DecoderAttention::set_heads() {
  const auto or_else = [&](const char* name, std::int64_t otherwise) { return values_.at(name) > 0 ? values_.at(name) : otherwise; };
  const std::int64_t heads = values_.at("heads");
  far_.attention.heads = heads;
  far_.attention.kv_heads = or_else("kv_heads", heads);
  far_.width = latent_.kv_rank > 0 ? latent_.still + latent_.turning : or_else("head_dim", hidden_ / heads);
  far_.values = or_else("value_dim", far_.width);
  far_.sinks = values_.at("sinks") == 1;
  far_.same_values = values_.at("kv_same") != 0;
  near_ = far_;
  near_.attention.heads = or_else("window_heads", heads);
  near_.attention.kv_heads = or_else("window_kv_heads", far_.attention.kv_heads);
  near_.width = or_else("window_head_dim", far_.width);
  near_.values = or_else("value_dim", near_.width);
  near_.sinks = values_.at("sinks") > 0;
  near_.same_values = false;
}

void DecoderAttention::check() const {
  const bool own_width = latent_.kv_rank > 0 || values_.at("head_dim") > 0;
  const std::string model(values_.style.model);
  require_heads(model, own_width ? far_.attention.heads : hidden_, far_.attention.heads, far_.attention.kv_heads);
  if (near_.attention.heads % near_.attention.kv_heads != 0)
    values_.refuse("window_heads=" + std::to_string(near_.attention.heads) +
                   " is not a multiple of window_kv_heads=" + std::to_string(near_.attention.kv_heads));
  if (values_.style.alibi && far_.attention.kv_heads != far_.attention.heads)
    values_.refuse(values_.text("kv_heads") + " must be heads=" + std::to_string(far_.attention.heads) + " or 0");
  if (far_.same_values && far_.values != far_.width)
    values_.refuse(values_.text("value_dim") + " has no meaning with kv_same; leave it out");
  if (values_.at("full_every") > 0) require_delta_rule(model, delta_, seq_);
  check_latent();
  check_index();
}

void DecoderAttention::check_latent() const {
  if (latent_.kv_rank == 0) return;
  if (far_.attention.kv_heads != far_.attention.heads)
    values_.refuse(values_.text("kv_heads") + ": with kv_lora every head has keys and values of its own; give kv_heads=0");
  for (const char* other : {"head_dim", "qk_norm", "v_norm", "qkv_bias", "o_bias", "sinks", "nope_every", "value_dim", "attn_gate",
                            "rotary_dim", "window_heads", "window_kv_heads", "window_head_dim", "kv_same"})
    if (values_.at(other) != 0) values_.refuse(values_.text(other) + " has no meaning with kv_lora; leave it out");
  if (values_.at("value_scale") != 1000) values_.refuse(values_.text("value_scale") + " has no meaning with kv_lora; leave it out");
  if (latent_.turning % 2 != 0) values_.refuse(values_.text("rope_dim") + " must be even: features turn in pairs");
}

void DecoderAttention::check_index() const {
  const std::int64_t heads = values_.at("index_heads"), block = values_.at("index_block");
  if (heads == 0) return;
  const bool latent = latent_.kv_rank > 0 && latent_.q_rank > 0;
  if (block == 0 && !latent)
    values_.refuse(values_.text("index_heads") + " needs kv_lora and q_lora: an index scores by what queries come from; or index_block");
  if (block > 0 && heads != far_.attention.kv_heads)
    values_.refuse(values_.text("index_heads") + " must be kv_heads=" + std::to_string(far_.attention.kv_heads) +
                   ": every head of the index chooses blocks for the heads that share a key");
  if (values_.at("window") > 0) values_.refuse("window has no meaning with index_heads; leave it out");
  const std::int64_t turns = latent_.kv_rank > 0 ? latent_.turning : turning(far_.width, "rotary_dim");
  if (values_.at("index_dim") < turns)
    values_.refuse(values_.text("index_dim") + " must be at least " + std::to_string(turns) + ", the features of it that turn");
}

/// Features of a head that turn with the position.
std::int64_t DecoderAttention::turning(std::int64_t width, const char* own) const {
  const std::int64_t share = values_.at("rotary");
  std::int64_t features = values_.at(own);
  if (features == 0 && width == far_.width) features = values_.at("rotary_dim");
  if (features > 0) {
    if (features % 2 != 0 || features > width)
      values_.refuse("of a head's " + std::to_string(width) + " features " + std::to_string(features) +
                     " cannot turn: it must be an even number of them");
    return features;
  }
  features = width * share / 100;
  if (share > 0 && (features == 0 || features % 2 != 0))
    values_.refuse("rotary positions turn pairs of a head's features, but rotary=" + std::to_string(share) + " percent of " +
                   (values_.at("head_dim") > 0 ? "head_dim=" : "hidden/heads=") + std::to_string(width) + " are " +
                   std::to_string(features));
  return features;
}

void DecoderAttention::prepare() {
  Attention shared = make_attention(layers_, far_.attention.heads, far_.attention.kv_heads,
                                    values_.at("query_scale") > 0 ? values_.at("query_scale") : far_.width);
  if (values_.at("query_scale") == 1) shared.scale = TensorId::None;
  shared.cap = static_cast<double>(values_.at("score_cap"));
  shared.mask = causal_mask(layers_, seq_);
  shared.norm = static_cast<HeadNorm>(values_.at("qk_norm"));
  shared.norm_values = values_.at("v_norm") != 0;
  const std::int64_t heads = near_.attention.heads, kv = near_.attention.kv_heads;
  far_.attention = near_.attention = shared;
  near_.attention.heads = heads;
  near_.attention.kv_heads = kv;
  const std::int64_t window = values_.at("window");
  if (window > 0 && window < seq_) near_.attention.mask = window_mask(layers_, shared.mask, window, seq_);
  if (values_.at("query_scale") == 0 && near_.width != far_.width)
    near_.attention.scale = layers_.constant("window.scale", 1 / std::sqrt(static_cast<double>(near_.width)));
  const std::int64_t turns = latent_.kv_rank > 0 ? latent_.turning : turning(far_.width, "rotary_dim");
  const bool whole = values_.at("rotary_whole") != 0;
  // base^(-2i / width) of the whole head: of the features that turn the same with another base.
  const auto theta = static_cast<double>(values_.at("theta"));
  const double base = whole ? std::pow(theta, static_cast<double>(turns) / static_cast<double>(far_.width)) : theta;
  if (turns > 0) far_.attention.rotary = near_.attention.rotary = make_rotary(layers_, "rotary", seq_, turns, base);
  if (window > 0) {
    const std::int64_t near_turns = latent_.kv_rank > 0 ? turns : turning(near_.width, "window_rotary_dim");
    const std::int64_t own_theta = values_.at("window_theta");
    if (near_turns > 0 && (own_theta > 0 || whole || near_turns != turns))
      near_.attention.rotary =
          make_rotary(layers_, "window.rotary", seq_, near_turns, static_cast<double>(own_theta > 0 ? own_theta : values_.at("theta")));
  }
  if (values_.style.alibi) far_.attention.bias = near_.attention.bias = distance_bias();
}

/// slope of the head · (key's position - last position): a shift that is the same for all keys does not change the softmax.
TensorId DecoderAttention::distance_bias() {
  const std::int64_t heads = far_.attention.heads;
  std::vector<double> slopes(static_cast<std::size_t>(heads));
  for (std::size_t h = 0; h < slopes.size(); ++h) slopes[h] = std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(heads));
  const TensorId slope = layers_.builder().add_constant("alibi.slopes", Value::of_reals(slopes, {heads, 1, 1}));
  const TensorId last = layers_.constant("alibi.last", static_cast<double>(seq_ - 1));
  const TensorId distance = layers_.node("alibi.distance", "Sub", {positions(layers_, "alibi.keys", {1, 1, seq_}, DType::F32), last});
  return layers_.multiply("alibi", slope, distance);
}

bool DecoderAttention::has_window(std::int64_t layer) const {
  const std::int64_t every = values_.at("window_every");
  if (values_.at("window") == 0 || layer < values_.at("window_first")) return false;
  return every == 0 || (layer + 1 + values_.at("window_offset")) % every != 0;
}

DecoderAttention::Kind DecoderAttention::kind_of(std::int64_t layer) const {
  Kind own = has_window(layer) ? near_ : far_;
  if (const std::int64_t still = values_.at("nope_every"); still > 0 && (layer + 1) % still == 0) {
    own.attention.rotary = {};
    own.attention.norm = HeadNorm::None;
  }
  return own;
}

TensorId DecoderAttention::build(const std::string& name, TensorId x, std::int64_t layer) {
  if (const std::int64_t every = values_.at("full_every"); every > 0 && (layer + 1) % every != 0)
    return gated_delta_rule(layers_, name, x, delta_);
  Kind own = kind_of(layer);
  const bool indexed = values_.at("index_heads") > 0 && layer >= values_.at("index_from");
  if (own.sinks) own.attention.sinks = layers_.parameter(name + ".sinks", {own.attention.heads});
  const bool bias = values_.style.bias || values_.at("o_bias") != 0;
  if (latent_.kv_rank > 0) {
    const LatentInput input{x, narrow_queries(layers_, name, x, latent_)};
    if (indexed) own.attention.mask = seen_by(name, input, layer);
    return layers_.dense(name + ".o_proj", attend_latent(layers_, name, input, latent_, own.attention), hidden_, bias);
  }
  if (indexed) own.attention.mask = seen_by(name, {x, x}, layer);
  const Projected projected = projections(name, x, own);
  const TensorId mixed = attend(layers_, name, projected.heads, own.attention);
  return layers_.dense(name + ".o_proj", gated(name, x, mixed, projected.gate, own), hidden_, bias);
}

/// Where every feature has a gate, the product of the queries gives these numbers, too.
DecoderAttention::Projected DecoderAttention::projections(const std::string& name, TensorId x, const Kind& own) {
  const std::int64_t kv_heads = own.attention.kv_heads, all = own.width * own.attention.heads, kv = own.width * kv_heads;
  const bool bias = values_.style.bias || values_.at("qkv_bias") != 0;
  if (values_.style.packed) {
    const auto parts = layers_.split(name + ".split", layers_.dense(name + ".qkv", x, all + 2 * kv, bias), 2, {all, kv, kv});
    return {{parts[0], parts[1], parts[2]}};
  }
  Projected p;
  if (values_.at("attn_gate") == 1) {
    const std::int64_t gates = own.values * own.attention.heads;
    const auto parts = layers_.split(name + ".q_proj.parts", layers_.dense(name + ".q_proj", x, all + gates, bias), 2, {all, gates});
    p.heads.q = parts[0];
    p.gate = parts[1];
  } else {
    p.heads.q = layers_.dense(name + ".q_proj", x, all, bias);
  }
  p.heads.k = layers_.dense(name + ".k_proj", x, kv, bias);
  p.heads.v = own.same_values ? p.heads.k : layers_.dense(name + ".v_proj", x, own.values * kv_heads, bias);
  if (const std::int64_t scale = values_.at("value_scale", 1000); scale != 1000)
    p.heads.v =
        layers_.multiply(name + ".v_proj.scaled", p.heads.v, layers_.constant(name + ".v_proj.scale", static_cast<double>(scale) / 1000));
  if (own.attention.norm == HeadNorm::OfHeads)
    p.heads = {layers_.rms_norm(name + ".q_norm", p.heads.q), layers_.rms_norm(name + ".k_norm", p.heads.k), p.heads.v};
  return p;
}

/// mixed [batch, seq, heads · values] by the sigmoid of its gate, or of one number for each head, where the model has any.
TensorId DecoderAttention::gated(const std::string& name, TensorId x, TensorId mixed, TensorId gate, const Kind& own) {
  if (gate != TensorId::None) return layers_.multiply(name + ".gated", mixed, layers_.node(name + ".gate", "Sigmoid", {gate}));
  if (values_.at("attn_gate") == 0) return mixed;
  const Shape shape = layers_.shape(mixed);
  const std::int64_t heads = own.attention.heads;
  const TensorId numbers = layers_.node(name + ".gate", "Sigmoid", {layers_.dense(name + ".g_proj", x, heads, false)});
  const TensorId by_head = layers_.reshape(name + ".by_head", mixed, {shape[0], shape[1], heads, shape[2] / heads});
  const TensorId product =
      layers_.multiply(name + ".gated", by_head, layers_.reshape(name + ".gate.by_head", numbers, {shape[0], shape[1], heads, 1}));
  return layers_.reshape(name + ".gated.flat", product, shape);
}

/// The mask of a block's own choice of tokens, or of the last one before it.
TensorId DecoderAttention::seen_by(const std::string& name, const LatentInput& input, std::int64_t layer) {
  const std::int64_t first = values_.at("index_first"), every = values_.at("index_every", 1);
  if (seen_ == TensorId::None || layer < first || (layer - first + 1) % every == 0)
    seen_ = chosen_tokens(layers_, name + ".indexer", input,
                          {values_.at("index_heads"), values_.at("index_dim"), values_.at("index_top"), values_.at("index_block")},
                          far_.attention);
  return seen_;
}

}  // namespace rehearsal::graph::zoo
