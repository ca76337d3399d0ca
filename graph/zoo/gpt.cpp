// Radford et al., "Language Models are Unsupervised Multitask Learners" (GPT-2), 2019; parameters named as in the released model
// (fully connected weights are [in, out]).

#include <cmath>

#include "base/error.hpp"
#include "graph/zoo/layers.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kParameters[] = {
    {"layers", 12, 1, 10'000, "transformer blocks"},
    {"hidden", 768, 1, 1'000'000, "width of the residual stream, a multiple of heads"},
    {"heads", 12, 1, 100'000, "attention heads"},
    {"ffn", 0, 0, 10'000'000, "width of the feed-forward layer; 0: 4 hidden"},
    {"seq", 1024, 1, 1'000'000, "tokens of a sample"},
    {"vocab", 50257, 2, 10'000'000, "tokens there are"},
    {"tied", 1, 0, 1, "1: the result uses the token embedding as its weight"},
    {"batch", 4, 1, 1'000'000'000, "samples"},
};
constexpr double kMasked = -3.4028234663852886e38;  ///< the least float: softmax makes it 0

class Gpt {
 public:
  explicit Gpt(const ZooValues& v)
      : layer_count_(v.at("layers")),
        hidden_(v.at("hidden")),
        heads_(v.at("heads")),
        ffn_(v.at("ffn") == 0 ? 4 * hidden_ : v.at("ffn")),
        seq_(v.at("seq")),
        vocab_(v.at("vocab")),
        batch_(v.at("batch")),
        tied_(v.at("tied") != 0) {
    if (hidden_ % heads_ != 0)
      throw BadInput("zoo:gpt", "hidden=" + std::to_string(hidden_) + " is not a multiple of heads=" + std::to_string(heads_));
  }

  Graph build() && {
    const TensorId ids = layers_.builder().add_input("input_ids", {DType::I64, {batch_, seq_}});
    const TensorId tokens = layers_.parameter("wte.weight", {vocab_, hidden_}),
                   positions = layers_.parameter("wpe.weight", {seq_, hidden_});
    TensorId x = layers_.node("embedding", "Add", {layers_.node("wte", "Gather", {tokens, ids}, {{"axis", std::int64_t{0}}}), positions});
    make_mask();
    for (std::int64_t layer = 0; layer < layer_count_; ++layer) x = block("h." + std::to_string(layer), x);
    x = layers_.layer_norm("ln_f", x);
    const TensorId weight = tied_ ? tokens : layers_.parameter("lm_head.weight", {vocab_, hidden_});
    const TensorId scores = layers_.node("lm_head", "MatMul", {x, permuted("lm_head.transpose", weight, {1, 0})});
    return std::move(layers_).finish(scores, "logits");
  }

 private:
  TensorId permuted(const std::string& name, TensorId x, std::vector<std::int64_t> perm) {
    return layers_.node(name, "Transpose", {x}, {{"perm", std::move(perm)}});
  }
  TensorId reshaped(const std::string& name, TensorId x, Shape shape) {
    return layers_.node(name, "Reshape", {x}, {{"shape", std::move(shape)}});
  }

  /// True where a token (row) may look at another (column): not after itself. One node where it is too large to be a constant.
  void make_mask() {
    const auto positions = [&](const std::string& name, Shape shape) {
      const TensorId range =
          layers_.node(name + ".range", "Range", {},
                       {{"start", 0.0}, {"limit", static_cast<double>(seq_)}, {"delta", 1.0}, {"dtype", std::string("i64")}});
      return reshaped(name, range, std::move(shape));
    };
    mask_ = layers_.node("causal", "GreaterOrEqual", {positions("causal.rows", {seq_, 1}), positions("causal.columns", {1, seq_})});
    masked_ = layers_.builder().add_constant("causal.masked", Value::scalar(kMasked, DType::F32));
    scale_ =
        layers_.builder().add_constant("attention.scale", Value::scalar(1 / std::sqrt(static_cast<double>(hidden_ / heads_)), DType::F32));
  }

  /// x [..., in] by weight [in, out], plus bias [out].
  TensorId projection(const std::string& name, TensorId x, std::int64_t features) {
    const TensorId weight = layers_.parameter(name + ".weight", {layers_.shape(x).back(), features}),
                   bias = layers_.parameter(name + ".bias", {features});
    return layers_.node(name + ".add", "Add", {layers_.node(name, "MatMul", {x, weight}), bias});
  }

  TensorId attention(const std::string& name, TensorId x) {
    const std::int64_t width = hidden_ / heads_;
    const TensorId packed = projection(name + ".c_attn", x, 3 * hidden_);
    const auto parts = layers_.builder().add("Split", {packed}, {{"axis", std::int64_t{2}}, {"split", Shape(3, hidden_)}},
                                             {name + ".split", Phase::Forward, NodeId::None, {}});
    const auto by_head = [&](const std::string& part, TensorId t, std::vector<std::int64_t> perm) {
      return permuted(name + part + ".heads", reshaped(name + part, t, {batch_, seq_, heads_, width}), std::move(perm));
    };
    const TensorId q = by_head(".q", parts[0], {0, 2, 1, 3}), k = by_head(".k", parts[1], {0, 2, 3, 1}),
                   v = by_head(".v", parts[2], {0, 2, 1, 3});
    const TensorId scores = layers_.node(name + ".scale", "Mul", {layers_.node(name + ".scores", "MatMul", {q, k}), scale_});
    const TensorId weights = layers_.node(name + ".softmax", "Softmax", {layers_.node(name + ".mask", "Where", {mask_, scores, masked_})},
                                          {{"axis", std::int64_t{-1}}});
    const TensorId mixed = permuted(name + ".joined", layers_.node(name + ".mix", "MatMul", {weights, v}), {0, 2, 1, 3});
    return projection(name + ".c_proj", reshaped(name + ".flat", mixed, {batch_, seq_, hidden_}), hidden_);
  }

  TensorId block(const std::string& name, TensorId x) {
    x = layers_.node(name + ".attn.residual", "Add", {x, attention(name + ".attn", layers_.layer_norm(name + ".ln_1", x))});
    const TensorId wide = projection(name + ".mlp.c_fc", layers_.layer_norm(name + ".ln_2", x), ffn_);
    const TensorId active = layers_.node(name + ".mlp.act", "Gelu", {wide}, {{"approximate", std::string("tanh")}});
    return layers_.node(name + ".mlp.residual", "Add", {x, projection(name + ".mlp.c_proj", active, hidden_)});
  }

  std::int64_t layer_count_, hidden_, heads_, ffn_, seq_, vocab_, batch_;
  bool tied_;
  Layers layers_;
  TensorId mask_ = TensorId::None, masked_ = TensorId::None, scale_ = TensorId::None;
};

Graph gpt(const ZooValues& values) { return Gpt(values).build(); }

constexpr ZooRow kRows[] = {{"gpt", "GPT-2 (Radford et al. 2019); the defaults are GPT-2 small", kParameters, gpt}};

}  // namespace

std::span<const ZooRow> transformers() { return kRows; }

}  // namespace rehearsal::graph::zoo
