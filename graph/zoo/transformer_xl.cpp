// Dai et al., "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context", ACL 2019, section 3. The memory, hidden states of
// the segment before, comes as an input of every layer. The softmax is over the whole vocabulary, not adaptive.

#include "graph/zoo/attention.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kTransformerXlParameters[] = {
    {"layers", 16, 1, 10'000, "transformer blocks"},
    {"hidden", 512, 2, 1'000'000, "width of the residual stream, even and a multiple of heads"},
    {"heads", 8, 1, 100'000, "attention heads"},
    {"ffn", 2048, 1, 10'000'000, "width of the feed-forward layer"},
    {"seq", 192, 1, kLongestSequence, "tokens of a segment"},
    {"mem_len", 192, 1, 1'000'000, "tokens remembered from the segment before"},
    {"vocab", 267'735, 2, 10'000'000, "tokens there are"},
    {"batch", 8, 1, 1'000'000'000, "samples"},
};

class TransformerXl {
 public:
  explicit TransformerXl(const ZooValues& v)
      : values_(v),
        hidden_(v.at("hidden")),
        heads_(v.at("heads")),
        width_(hidden_ / heads_),
        seq_(v.at("seq")),
        keys_(seq_ + v.at("mem_len")) {
    require_heads("transformer-xl", hidden_, heads_, heads_);
  }

  Graph build() && {
    const std::int64_t batch = values_.at("batch"), vocab = values_.at("vocab");
    const TensorId tokens = layers_.parameter("word_emb.weight", {vocab, hidden_});
    const TensorId ids = layers_.indices("input_ids", {batch, seq_});
    TensorId x = layers_.dropout("drop", layers_.node("word_emb", "Gather", {tokens, ids}, {{"axis", std::int64_t{0}}}), 0.1);
    prepare();
    for (std::int64_t layer = 0; layer < values_.at("layers"); ++layer) {
      const std::string n = std::to_string(layer);
      x = block("layers." + n, x, layers_.input("memory" + n, {batch, keys_ - seq_, hidden_}));
    }
    const TensorId product = layers_.matmul("out_layer", x, layers_.transpose("out_layer.transpose", tokens, {1, 0}));
    return std::move(layers_).finish(layers_.add("out_layer.add", product, layers_.parameter("out_layer.bias", {vocab})), "logits");
  }

 private:
  void prepare() {
    attention_ = make_attention(layers_, heads_, heads_, width_);
    const RotaryTables waves = make_rotary(layers_, "pos_emb", keys_, hidden_);
    const TensorId near_first = layers_.concat("pos_emb.near_first", {waves.sine, waves.cosine}, 1);
    waves_ = layers_.node("pos_emb.waves", "Slice", {near_first},
                          {{"starts", Shape{keys_ - 1}}, {"ends", Shape{-keys_ - 1}}, {"axes", Shape{0}}, {"steps", Shape{-1}}});
    content_ = layers_.parameter("r_w_bias", {heads_, 1, width_});
    place_ = layers_.parameter("r_r_bias", {heads_, 1, width_});
    const TensorId last = layers_.builder().add_constant("mask.last", Value::scalar(static_cast<double>(keys_ - seq_), DType::I64));
    const TensorId query = layers_.add("mask.queries", positions(layers_, "mask.rows", {seq_, 1}), last);
    mask_ = layers_.node("mask", "GreaterOrEqual", {query, positions(layers_, "mask.columns", {1, keys_})});
  }

  TensorId by_head(const std::string& name, TensorId x, std::vector<std::int64_t> perm) {
    const Shape s = layers_.shape(x);
    return layers_.transpose(name + ".heads", layers_.reshape(name, x, {s[0], s[1], heads_, width_}), std::move(perm));
  }

  /// Row i of [.., queries, keys] moves left by queries - 1 - i: a column of padding and two reshapes (appendix B).
  TensorId shifted(const std::string& name, TensorId scores) {
    const Shape s = layers_.shape(scores);
    const TensorId padded =
        layers_.node(name + ".padded", "Pad", {scores}, {{"pads", Shape{1, 0}}, {"mode", std::string("constant")}, {"value", 0.0}});
    const TensorId turned = layers_.reshape(name + ".turned", padded, {s[0], s[1], s[3] + 1, s[2]});
    return layers_.reshape(name, layers_.split(name + ".cut", turned, 2, {1, s[3]})[1], s);
  }

  TensorId attention(const std::string& name, TensorId x, TensorId memory) {
    const TensorId all = layers_.concat(name + ".remembered", {memory, x}, 1);
    const TensorId q = by_head(name + ".q", layers_.dense(name + ".q_net", x, hidden_, false), {0, 2, 1, 3});
    const auto kv = layers_.split(name + ".kv", layers_.dense(name + ".kv_net", all, 2 * hidden_, false), 2, Shape(2, hidden_));
    const TensorId k = by_head(name + ".k", kv[0], {0, 2, 3, 1}), v = by_head(name + ".v", kv[1], {0, 2, 1, 3});
    const TensorId distances =
        layers_.reshape(name + ".r", layers_.dense(name + ".r_net", waves_, hidden_, false), {1, keys_, heads_, width_});
    const TensorId r = layers_.transpose(name + ".r.heads", distances, {0, 2, 3, 1});
    const TensorId by_content = layers_.matmul(name + ".ac", layers_.add(name + ".q_content", q, content_), k);
    const TensorId by_place = shifted(name + ".shift", layers_.matmul(name + ".bd", layers_.add(name + ".q_place", q, place_), r));
    TensorId scores = layers_.multiply(name + ".scale", layers_.add(name + ".scores", by_content, by_place), attention_.scale);
    scores = layers_.node(name + ".mask", "Where", {mask_, scores, attention_.masked});
    const TensorId weights = layers_.node(name + ".softmax", "Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    const TensorId mixed = layers_.transpose(name + ".joined", layers_.matmul(name + ".mix", weights, v), {0, 2, 1, 3});
    const TensorId flat = layers_.reshape(name + ".flat", mixed, {values_.at("batch"), seq_, hidden_});
    return layers_.dropout(name + ".dropout", layers_.dense(name + ".o_net", flat, hidden_, false), 0.1);
  }

  TensorId block(const std::string& name, TensorId x, TensorId memory) {
    x = layers_.layer_norm(name + ".attn.norm", layers_.add(name + ".attn.residual", x, attention(name + ".attn", x, memory)));
    const TensorId wide = layers_.relu(name + ".ff.relu", layers_.dense(name + ".ff.1", x, values_.at("ffn")));
    const TensorId more = layers_.dropout(name + ".ff.dropout", layers_.dense(name + ".ff.2", wide, hidden_), 0.1);
    return layers_.layer_norm(name + ".ff.norm", layers_.add(name + ".ff.residual", x, more));
  }

  const ZooValues& values_;
  std::int64_t hidden_, heads_, width_, seq_, keys_;
  Layers layers_;
  Attention attention_;
  TensorId waves_ = TensorId::None, content_ = TensorId::None, place_ = TensorId::None, mask_ = TensorId::None;
};

constexpr ZooRow kTransformerXlRows[] = {{"transformer-xl",
                                          "Transformer-XL (Dai et al. 2019); the defaults are the base model of WikiText-103",
                                          kTransformerXlParameters, [](const ZooValues& values) { return TransformerXl(values).build(); }}};

}  // namespace

std::span<const ZooRow> recurrent_transformers() { return kTransformerXlRows; }

}  // namespace rehearsal::graph::zoo
