// Radford et al., "Language Models are Unsupervised Multitask Learners" (GPT-2), 2019; parameters named as in the released model
// (fully connected weights are [in, out]).

#include "graph/zoo/attention.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kGptParameters[] = {
    {"layers", 12, 1, 10'000, "transformer blocks"},
    {"hidden", 768, 1, 1'000'000, "width of the residual stream, a multiple of heads"},
    {"heads", 12, 1, 100'000, "attention heads"},
    {"kv_heads", 0, 0, 100'000, "heads of keys and values; 0: as many as heads"},
    {"ffn", 0, 0, 10'000'000, "width of the feed-forward layer; 0: 4 hidden"},
    {"seq", 1024, 1, kLongestSequence, "tokens of a sample"},
    {"vocab", 50257, 2, 10'000'000, "tokens there are"},
    {"tied", 1, 0, 1, "1: the result uses the token embedding as its weight"},
    {"batch", 4, 1, 1'000'000'000, "samples"},
};

class Gpt {
 public:
  explicit Gpt(const ZooValues& v)
      : layer_count_(v.at("layers")),
        hidden_(v.at("hidden")),
        heads_(v.at("heads")),
        kv_heads_(v.at("kv_heads") == 0 ? heads_ : v.at("kv_heads")),
        ffn_(v.at("ffn") == 0 ? 4 * hidden_ : v.at("ffn")),
        seq_(v.at("seq")),
        vocab_(v.at("vocab")),
        batch_(v.at("batch")),
        tied_(v.at("tied") != 0) {
    require_heads("gpt", hidden_, heads_, kv_heads_);
  }

  Graph build() && {
    const TensorId ids = layers_.builder().add_input("input_ids", {DType::I64, {batch_, seq_}});
    const TensorId tokens = layers_.parameter("wte.weight", {vocab_, hidden_}),
                   positions = layers_.parameter("wpe.weight", {seq_, hidden_});
    TensorId x = layers_.node("embedding", "Add", {layers_.node("wte", "Gather", {tokens, ids}, {{"axis", std::int64_t{0}}}), positions});
    attention_ = make_attention(layers_, heads_, kv_heads_, hidden_ / heads_);
    attention_.mask = causal_mask(layers_, seq_);
    for (std::int64_t layer = 0; layer < layer_count_; ++layer) x = block("h." + std::to_string(layer), x);
    x = layers_.layer_norm("ln_f", x);
    const TensorId weight = tied_ ? tokens : layers_.parameter("lm_head.weight", {vocab_, hidden_});
    const TensorId scores = layers_.product_with_rows("lm_head", x, weight);
    return std::move(layers_).finish(scores, "logits");
  }

 private:
  TensorId attention(const std::string& name, TensorId x) {
    const std::int64_t shared = hidden_ / heads_ * kv_heads_;
    const TensorId packed = layers_.dense(name + ".c_attn", x, hidden_ + 2 * shared);
    const auto parts = layers_.split(name + ".split", packed, 2, {hidden_, shared, shared});
    return layers_.dense(name + ".c_proj", attend(layers_, name, {parts[0], parts[1], parts[2]}, attention_), hidden_);
  }

  TensorId block(const std::string& name, TensorId x) {
    x = layers_.node(name + ".attn.residual", "Add", {x, attention(name + ".attn", layers_.layer_norm(name + ".ln_1", x))});
    const TensorId wide = layers_.dense(name + ".mlp.c_fc", layers_.layer_norm(name + ".ln_2", x), ffn_);
    const TensorId active = layers_.node(name + ".mlp.act", "Gelu", {wide}, {{"approximate", std::string("tanh")}});
    return layers_.node(name + ".mlp.residual", "Add", {x, layers_.dense(name + ".mlp.c_proj", active, hidden_)});
  }

  std::int64_t layer_count_, hidden_, heads_, kv_heads_, ffn_, seq_, vocab_, batch_;
  bool tied_;
  Layers layers_;
  Attention attention_;
};

Graph gpt(const ZooValues& values) { return Gpt(values).build(); }

constexpr ZooRow kGptRows[] = {{"gpt", "GPT-2 (Radford et al. 2019); the defaults are GPT-2 small", kGptParameters, gpt}};

}  // namespace

std::span<const ZooRow> transformers() { return kGptRows; }

}  // namespace rehearsal::graph::zoo
