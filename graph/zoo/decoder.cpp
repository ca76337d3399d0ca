// Decoders later than GPT-2: GPT-NeoX (Black et al. 2022), MPT (MosaicML 2023), Llama (Touvron et al. 2023, Grattafiori et al. 2024)
// and what came of it (Qwen2, Qwen3), Mixtral (Jiang et al. 2024) and later mixtures of experts (DeepSeek-V3, Qwen3). Fully connected
// weights are [in, out].

#include <cmath>

#include "graph/losses.hpp"
#include "graph/zoo/decoder_attention.hpp"
#include "graph/zoo/decoder_parameters.hpp"
#include "graph/zoo/experts.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

class Decoder {
 public:
  Decoder(const DecoderStyle& style, const ZooValues& v)
      : style_(style), values_(v), own_{style, v}, hidden_(v.at("hidden")), attention_(layers_, own_) {
    ffn_ = v.at("ffn") == 0 ? 4 * hidden_ : v.at("ffn");
  }

  Graph build() && {
    const std::int64_t vocab = values_.at("vocab");
    const TensorId ids = layers_.indices("input_ids", {values_.at("batch"), values_.at("seq")});
    tokens_ = layers_.parameter("embed.weight", {vocab, hidden_});
    TensorId x = embedded("embed", ids);
    attention_.prepare();
    for (std::int64_t layer = 0; layer < values_.at("layers"); ++layer) x = block("layers." + std::to_string(layer), x, layer);
    if (values_.at("tied") == 0) head_ = layers_.parameter("lm_head.weight", {hidden_, vocab});
    TensorId logits = scores("lm_head", norm("norm", x));
    if (value("logit_cap") > 0) logits = capped(layers_, "lm_head.capped", logits, static_cast<double>(value("logit_cap")));
    std::vector<TensorId> results{logits};
    std::vector<std::string> names{"logits"};
    if (value("mtp") > 0) {
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
  [[nodiscard]] std::int64_t value(std::string_view name, std::int64_t otherwise = 0) const { return own_.at(name, otherwise); }

  TensorId embedded(const std::string& name, TensorId ids) {
    const TensorId rows = layers_.node(name, "Gather", {tokens_, ids}, {{"axis", std::int64_t{0}}});
    if (value("embed_scale") == 0) return rows;
    return layers_.multiply(name + ".scaled", rows, layers_.constant(name + ".scale", std::sqrt(static_cast<double>(hidden_))));
  }
  TensorId scores(const std::string& name, TensorId x) {
    return head_ != TensorId::None ? layers_.matmul(name, x, head_) : layers_.product_with_rows(name, x, tokens_);
  }

  TensorId norm(const std::string& name, TensorId x) {
    return style_.rms ? layers_.rms_norm(name, x) : layers_.layer_norm(name, x, style_.bias);
  }

  TensorId plain_feed_forward(const std::string& name, TensorId x, std::int64_t ffn) {
    TensorId wide = TensorId::None;
    if (style_.gated) {
      const TensorId product = layers_.dense(name + ".gate_proj", x, ffn, style_.bias);
      const TensorId gate = value("act") == 0 ? layers_.silu(name + ".act", product) : layers_.gelu(name + ".act", product, true);
      wide = layers_.multiply(name + ".gated", gate, layers_.dense(name + ".up_proj", x, ffn, style_.bias));
    } else {
      wide = layers_.gelu(name + ".act", layers_.dense(name + ".up_proj", x, ffn, style_.bias));
    }
    return layers_.dense(name + ".down_proj", wide, hidden_, style_.bias);
  }

  [[nodiscard]] Experts experts() const {
    Experts experts{values_.at("experts"), values_.at("top_k"), values_.at("capacity"), ffn_, values_.at("balance") != 0};
    if (values_.at("moe_ffn") > 0) experts.ffn = values_.at("moe_ffn");
    experts.gate = static_cast<Gate>(values_.at("gate"));
    experts.scale = static_cast<double>(values_.at("gate_scale")) / 1000;
    experts.bias = values_.at("expert_bias") != 0;
    experts.gelu = values_.at("act") != 0;
    return experts;
  }

  TensorId mixed(const std::string& name, TensorId x, const Experts& experts) {
    const auto mixed = mixture_of_experts(layers_, name, x, experts);
    if (experts.balance) balance_ = balance_ == TensorId::None ? mixed.balance : layers_.add(name + ".balances", balance_, mixed.balance);
    return mixed.result;
  }

  /// source: what the block adds to, of which x is the norm.
  TensorId feed_forward(const std::string& name, TensorId x, TensorId source, std::int64_t layer) {
    const bool has_experts = value("experts") > 0 && layer >= value("dense_layers") && (layer + 1) % value("moe_every", 1) == 0;
    if (!has_experts) return plain_feed_forward(name, x, ffn_);
    if (value("dense_beside") != 0) return both_feed_forwards(name, x, source);
    const TensorId chosen = mixed(name, x, experts());
    if (value("shared_experts") == 0) return chosen;
    TensorId shared = plain_feed_forward(name + ".shared", x, value("shared_experts") * experts().ffn);
    if (value("shared_gate") != 0) {
      const TensorId gate = layers_.node(name + ".shared.gate.sigmoid", "Sigmoid", {layers_.dense(name + ".shared.gate", x, 1, false)});
      shared = layers_.multiply(name + ".shared.gated", shared, gate);
    }
    return layers_.add(name + ".both", chosen, shared);
  }

  /// A feed-forward layer and experts, each behind a norm; the gate reads the source by a norm of its own, of which the weight is learned
  /// and the root of hidden divided by, and every expert has a factor (Gemma 4, 2026).
  TensorId both_feed_forwards(const std::string& name, TensorId x, TensorId source) {
    Experts own = experts();
    own.routed_by = layers_.multiply(name + ".gate.scaled", norm(name + ".gate.norm", source),
                                     layers_.constant(name + ".gate.scale", 1 / std::sqrt(static_cast<double>(hidden_))));
    own.factors = true;
    const TensorId chosen = norm(name + ".norm_experts", mixed(name, norm(name + ".norm_chosen", source), own));
    return layers_.add(name + ".both", norm(name + ".norm_dense", plain_feed_forward(name + ".dense", x, ffn_)), chosen);
  }

  TensorId block(const std::string& name, TensorId x, std::int64_t layer) {
    const std::int64_t norms = value("norms");
    const auto before = [&](const char* part, TensorId t) { return norms == 2 ? t : norm(name + part, t); };
    const auto behind = [&](const char* part, TensorId t) { return norms == 0 ? t : norm(name + part, t); };
    const TensorId given = behind(".norm_1b", attention_.build(name + ".attn", before(".norm_1", x), layer));
    const TensorId attended = layers_.add(name + ".attn.residual", x, given);
    const TensorId source = style_.parallel ? x : attended;
    const TensorId wide = feed_forward(name + ".mlp", before(".norm_2", source), source, layer);
    return layers_.add(name + ".mlp.residual", attended, behind(".norm_2b", wide));
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
      own_.refuse("mtp=" + std::to_string(modules) + " predicts tokens beyond seq=" + std::to_string(seq) +
                  "; seq must be larger than mtp + 1");
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

  const DecoderStyle& style_;
  const ZooValues& values_;
  DecoderValues own_;
  std::int64_t hidden_, ffn_ = 1;
  Layers layers_;
  DecoderAttention attention_;
  TensorId tokens_ = TensorId::None, head_ = TensorId::None;  ///< weights of the embedding and of the result, where it has its own
  TensorId balance_ = TensorId::None;                         ///< of all layers so far
};

constexpr DecoderStyle kNeoxStyle{.model = "gpt-neox", .parallel = true};
constexpr DecoderStyle kMptStyle{.model = "mpt", .bias = false, .alibi = true};
constexpr DecoderStyle kLlamaStyle{.model = "llama", .rms = true, .bias = false, .gated = true, .packed = false};
constexpr DecoderStyle kMoeStyle{.model = "moe", .rms = true, .bias = false, .gated = true, .packed = false};

template <const DecoderStyle& kStyle>
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
