// DeepSeek-V4 (DeepSeek-AI 2026), by its published configurations: compressed attention, hyper-connections, experts in all blocks.

#include "base/error.hpp"
#include "graph/zoo/compressed_attention.hpp"
#include "graph/zoo/experts.hpp"
#include "graph/zoo/hyper_connections.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kDeepSeekV4[] = {
    {"layers", 43, 1, 10'000, "transformer blocks: behind the first two, attentions with few and with many tokens compressed take turns"},
    {"first_many", 0, 0, 1, "what the first two blocks see beyond their window: 0 nothing, 1 many tokens compressed"},
    {"hidden", 4096, 1, 1'000'000, "width of a stream of the residual"},
    {"streams", 4, 1, 100, "streams of the residual"},
    {"sinkhorn", 20, 1, 1000, "times that the mixing of streams is divided by its columns' sums"},
    {"heads", 64, 1, 100'000, "attention heads, with one key for all that is their value, too"},
    {"head_dim", 512, 2, 100'000, "features of a head"},
    {"rope_dim", 64, 2, 100'000, "features of a head that turn with the position"},
    {"q_lora", 1024, 1, 1'000'000, "width of the vector that queries come from"},
    {"o_groups", 8, 1, 10'000, "groups of heads whose results become narrow"},
    {"o_lora", 1024, 1, 1'000'000, "width of these"},
    {"window", 128, 1, 1'000'000, "tokens that a token sees as they are, itself included"},
    {"few", 4, 2, 100'000, "tokens that become one where an index chooses among them"},
    {"many", 128, 2, 100'000, "tokens that become one where all are seen"},
    {"index_heads", 64, 1, 10'000, "heads of the index; its weights are not trained"},
    {"index_dim", 128, 2, 100'000, "their features"},
    {"index_top", 512, 1, 1'000'000, "compressed tokens that a query sees"},
    {"theta", 10'000, 2, 1'000'000'000, "base of the rotary frequencies of blocks without compression"},
    {"compress_theta", 160'000, 2, 1'000'000'000, "base of those of the others"},
    {"experts", 256, 2, 10'000, "feed-forward layers to choose from"},
    {"top_k", 6, 1, 1000, "experts of a token"},
    {"moe_ffn", 2048, 1, 10'000'000, "width of an expert"},
    {"shared_experts", 1, 0, 1000, "experts that every token goes to"},
    {"hash_layers", 3, 0, 10'000, "first blocks whose experts are chosen by the token's number alone"},
    {"gate_scale", 1500, 1, 1'000'000, "thousandths by which the weights of the chosen are multiplied"},
    {"capacity", 125, 1, 100'000, "percent of an even share that an expert takes of a sample's tokens; the others skip it"},
    {"seq", 4096, 1, kLongestSequence, "tokens of a sample, a multiple of few and many"},
    {"vocab", 129280, 2, 10'000'000, "tokens there are"},
    {"tied", 0, 0, 1, "1: the result uses the token embedding as its weight"},
    {"batch", 1, 1, 1'000'000'000, "samples"},
};

class DeepSeekV4 {
 public:
  explicit DeepSeekV4(const ZooValues& v)
      : v_(v), attention_{v.at("heads"), v.at("head_dim"),    v.at("rope_dim"),  v.at("q_lora"),    v.at("window"),   v.at("few"),
                          v.at("many"),  v.at("index_heads"), v.at("index_dim"), v.at("index_top"), v.at("o_groups"), v.at("o_lora")} {
    require_compressed_attention("deepseek-v4", attention_, v.at("seq"));
  }

  Graph build() && {
    const std::int64_t vocab = v_.at("vocab"), hidden = v_.at("hidden"), batch = v_.at("batch"), seq = v_.at("seq");
    const TensorId ids = layers_.indices("input_ids", {batch, seq});
    const TensorId tokens = layers_.parameter("embed.weight", {vocab, hidden});
    const TensorId rows = layers_.node("embed", "Gather", {tokens, ids}, {{"axis", std::int64_t{0}}});
    TensorId x = layers_.node("streams", "Expand", {layers_.reshape("embed.stream", rows, {batch, seq, 1, hidden})},
                              {{"shape", Shape{batch, seq, v_.at("streams"), hidden}}});
    tables_ =
        compressed_tables(layers_, attention_, seq, static_cast<double>(v_.at("theta")), static_cast<double>(v_.at("compress_theta")));
    if (v_.at("hash_layers") > 0) hashed_ = hashed(ids);
    for (std::int64_t layer = 0; layer < v_.at("layers"); ++layer) x = block("layers." + std::to_string(layer), x, layer);
    x = layers_.rms_norm("norm", merged(layers_, "hc_head", x));
    if (v_.at("tied") != 0) return std::move(layers_).finish(layers_.product_with_rows("lm_head", x, tokens), "logits");
    return std::move(layers_).finish(layers_.dense("lm_head", x, vocab, false), "logits");
  }

 private:
  [[nodiscard]] BeyondWindow compression_of(std::int64_t layer) const {
    constexpr std::int64_t kFirst = 2;
    if (layer < kFirst) return v_.at("first_many") != 0 ? BeyondWindow::Many : BeyondWindow::None;
    return layer % 2 == 0 ? BeyondWindow::Few : BeyondWindow::Many;
  }

  /// [batch, seq, top_k]: other experts for every token, spread over all of them. The published models have a table of them.
  TensorId hashed(TensorId ids) {
    const std::int64_t experts = v_.at("experts"), chosen = v_.at("top_k");
    if (chosen > experts)
      throw BadInput("zoo:deepseek-v4", "top_k=" + std::to_string(chosen) + " is more than experts=" + std::to_string(experts));
    std::vector<std::int64_t> places(static_cast<std::size_t>(chosen));
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int64_t>(i) * (experts / chosen);
    const TensorId apart = layers_.reshape("hash.ids", ids, {v_.at("batch"), v_.at("seq"), 1});
    const TensorId moved =
        layers_.add("hash.moved", apart, layers_.builder().add_constant("hash.places", Value::of_integers(places, {chosen})));
    return layers_.node("hash", "Mod", {moved, layers_.builder().add_constant("hash.experts", Value::of_integers({experts}, {}))});
  }

  TensorId block(const std::string& name, TensorId x, std::int64_t layer) {
    const Streams before = into_block(layers_, name + ".attn_hc", x, v_.at("sinkhorn"));
    const TensorId attended =
        attend_compressed(layers_, name + ".attn", layers_.rms_norm(name + ".norm_1", before.input), compression_of(layer), tables_);
    x = out_of_block(layers_, name + ".attn", x, before, attended);
    const Streams behind = into_block(layers_, name + ".ffn_hc", x, v_.at("sinkhorn"));
    return out_of_block(layers_, name + ".mlp", x, behind,
                        feed_forward(name + ".mlp", layers_.rms_norm(name + ".norm_2", behind.input), layer));
  }

  TensorId feed_forward(const std::string& name, TensorId x, std::int64_t layer) {
    Experts experts{v_.at("experts"), v_.at("top_k"), v_.at("capacity"), v_.at("moe_ffn")};
    experts.gate = Gate::RootShares;
    experts.scale = static_cast<double>(v_.at("gate_scale")) / 1000;
    if (layer < v_.at("hash_layers")) experts.chosen = hashed_;
    const TensorId mixed = mixture_of_experts(layers_, name, x, experts).result;
    const std::int64_t shared = v_.at("shared_experts") * v_.at("moe_ffn");
    if (shared == 0) return mixed;
    const TensorId gate = layers_.silu(name + ".shared.act", layers_.dense(name + ".shared.gate_proj", x, shared, false));
    const TensorId wide = layers_.multiply(name + ".shared.gated", gate, layers_.dense(name + ".shared.up_proj", x, shared, false));
    return layers_.add(name + ".both", mixed, layers_.dense(name + ".shared.down_proj", wide, v_.at("hidden"), false));
  }

  const ZooValues& v_;
  CompressedAttention attention_;
  Layers layers_;
  CompressedTables tables_;
  TensorId hashed_ = TensorId::None;
};

Graph deepseek_v4(const ZooValues& values) { return DeepSeekV4(values).build(); }

constexpr ZooRow kDeepSeekV4Rows[] = {
    {"deepseek-v4",
     "DeepSeek-V4 (2026): attention over a window and compressed tokens, several streams of the residual (hyper-connections); the defaults "
     "are V4-Flash",
     kDeepSeekV4, deepseek_v4},
};

}  // namespace

std::span<const ZooRow> compressed_decoders() { return kDeepSeekV4Rows; }

}  // namespace rehearsal::graph::zoo
