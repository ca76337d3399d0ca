// Decoders whose blocks are state-space layers, few of them with an attention behind: Nemotron-H (NVIDIA 2025) and Nemotron 3 (2025), by
// their published configurations.

#include "base/error.hpp"
#include "graph/zoo/attention.hpp"
#include "graph/zoo/experts.hpp"
#include "graph/zoo/models.hpp"
#include "graph/zoo/state_space.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kHybrid[] = {
    {"blocks", 23, 1, 60, "blocks of a state-space layer, an attention in few of them, and a feed-forward layer"},
    {"attention_at", 0, 0, (std::int64_t{1} << 60) - 1, "a sum of powers of two: 2^n where block n, counted from 0, has an attention"},
    {"hidden", 2688, 1, 1'000'000, "width of the residual stream"},
    {"heads", 32, 1, 100'000, "attention heads"},
    {"kv_heads", 2, 1, 100'000, "heads of keys and values"},
    {"head_dim", 128, 1, 100'000, "features of an attention head"},
    {"ssm_heads", 64, 1, 100'000, "heads of a state-space layer"},
    {"ssm_head_dim", 64, 1, 100'000, "their features"},
    {"ssm_state", 128, 1, 100'000, "features of a head's state"},
    {"ssm_groups", 8, 1, 100'000, "groups of heads that share what goes into the state and out of it"},
    {"conv", 4, 1, 1000, "tokens that the convolution before the scan sees"},
    {"chunk", 128, 1, 100'000, "tokens that are scanned by products"},
    {"ffn", 1856, 1, 10'000'000, "width of the feed-forward layer, or of an expert"},
    {"experts", 128, 0, 10'000, "feed-forward layers to choose from; 0: one for all tokens"},
    {"top_k", 6, 1, 1000, "experts of a token"},
    {"shared_ffn", 3712, 0, 10'000'000, "width of one that every token goes to; 0: none", "experts"},
    {"latent", 0, 0, 1'000'000, "width to which tokens are brought for them; 0: as they are", "experts"},
    {"gate_scale", 2500, 1, 1'000'000, "thousandths by which the weights of the chosen are multiplied"},
    {"capacity", 125, 1, 100'000, "percent of an even share that an expert takes of a sample's tokens; the others skip it"},
    {"seq", 8192, 1, kLongestSequence, "tokens of a sample, a multiple of chunk where more"},
    {"vocab", 131072, 2, 10'000'000, "tokens there are"},
    {"tied", 0, 0, 1, "1: the result uses the token embedding as its weight"},
    {"batch", 1, 1, 1'000'000'000, "samples"},
};

class Hybrid {
 public:
  explicit Hybrid(const ZooValues& v) : values_(v), hidden_(v.at("hidden")) {
    require_heads("hybrid", v.at("heads"), v.at("heads"), v.at("kv_heads"));
    states_ = {v.at("ssm_heads"), v.at("ssm_head_dim"), v.at("ssm_state"), v.at("ssm_groups"), v.at("conv"), v.at("chunk")};
    require_state_space("hybrid", states_, v.at("seq"));
    if (v.at("attention_at") >> v.at("blocks") != 0)
      throw BadInput("zoo:hybrid", "attention_at=" + std::to_string(v.at("attention_at")) +
                                       " names a block beyond the last of blocks=" + std::to_string(v.at("blocks")));
  }

  Graph build() && {
    const std::int64_t vocab = values_.at("vocab"), seq = values_.at("seq");
    const TensorId ids = layers_.indices("input_ids", {values_.at("batch"), seq});
    const TensorId tokens = layers_.parameter("embed.weight", {vocab, hidden_});
    TensorId x = layers_.node("embed", "Gather", {tokens, ids}, {{"axis", std::int64_t{0}}});
    attention_ = make_attention(layers_, values_.at("heads"), values_.at("kv_heads"), values_.at("head_dim"));
    if (values_.at("attention_at") != 0) attention_.mask = causal_mask(layers_, seq);
    for (std::int64_t n = 0; n < values_.at("blocks"); ++n)
      x = block("blocks." + std::to_string(n), x, (values_.at("attention_at") >> n) % 2 != 0);
    x = layers_.rms_norm("norm", x);
    if (values_.at("tied") != 0) return std::move(layers_).finish(layers_.product_with_rows("lm_head", x, tokens), "logits");
    return std::move(layers_).finish(layers_.dense("lm_head", x, vocab, false), "logits");
  }

 private:
  TensorId block(const std::string& name, TensorId x, bool attends) {
    x = layers_.add(name + ".mamba.residual", x, state_space(layers_, name + ".mamba", layers_.rms_norm(name + ".norm_1", x), states_));
    if (attends) x = layers_.add(name + ".attn.residual", x, attention(name + ".attn", layers_.rms_norm(name + ".norm_2", x)));
    return layers_.add(name + ".mlp.residual", x, feed_forward(name + ".mlp", layers_.rms_norm(name + ".norm_3", x)));
  }

  /// Without positions: the state-space layers know the order of tokens.
  TensorId attention(const std::string& name, TensorId x) {
    const std::int64_t width = values_.at("head_dim"), kv = width * values_.at("kv_heads");
    const Projections projected{layers_.dense(name + ".q_proj", x, width * values_.at("heads"), false),
                                layers_.dense(name + ".k_proj", x, kv, false), layers_.dense(name + ".v_proj", x, kv, false)};
    return layers_.dense(name + ".o_proj", attend(layers_, name, projected, attention_), hidden_, false);
  }

  TensorId plain(const std::string& name, TensorId x, std::int64_t ffn) {
    const TensorId wide = layers_.relu_squared(name + ".act", layers_.dense(name + ".up_proj", x, ffn, false));
    return layers_.dense(name + ".down_proj", wide, hidden_, false);
  }

  TensorId feed_forward(const std::string& name, TensorId x) {
    if (values_.at("experts") == 0) return plain(name, x, values_.at("ffn"));
    Experts experts{values_.at("experts"), values_.at("top_k"), values_.at("capacity"), values_.at("ffn")};
    experts.gate = Gate::SigmoidShares;
    experts.gated = false;
    experts.latent = values_.at("latent");
    experts.scale = static_cast<double>(values_.at("gate_scale")) / 1000;
    const TensorId mixed = mixture_of_experts(layers_, name, x, experts).result;
    return values_.at("shared_ffn") == 0 ? mixed : layers_.add(name + ".both", mixed, plain(name + ".shared", x, values_.at("shared_ffn")));
  }

  const ZooValues& values_;
  std::int64_t hidden_;
  StateSpace states_;
  Layers layers_;
  Attention attention_;
};

Graph hybrid(const ZooValues& values) { return Hybrid(values).build(); }

constexpr ZooRow kHybridRows[] = {
    {"hybrid",
     "Nemotron-H (NVIDIA 2025): state-space layers (Mamba-2, Dao and Gu 2024), few attentions, and feed-forward layers or experts; the "
     "defaults are the sizes of Nemotron 3 Nano, without its attentions",
     kHybrid, hybrid},
};

}  // namespace

std::span<const ZooRow> hybrids() { return kHybridRows; }

}  // namespace rehearsal::graph::zoo
