// Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2019, with the head that guesses masked tokens (its weight is
// the token embedding). Sequences are full: nothing is masked out of attention. Fully connected weights are [in, out].

#include "graph/zoo/attention.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kBertParameters[] = {
    {"layers", 12, 1, 10'000, "transformer blocks"},
    {"hidden", 768, 1, 1'000'000, "width of the residual stream, a multiple of heads"},
    {"heads", 12, 1, 100'000, "attention heads"},
    {"ffn", 0, 0, 10'000'000, "width of the feed-forward layer; 0: 4 hidden"},
    {"seq", 512, 1, kLongestSequence, "tokens of a sample"},
    {"vocab", 30522, 2, 10'000'000, "tokens there are"},
    {"positions", 0, 0, 10'000'000, "rows of the position table, at least seq; 0: the larger of seq and 512"},
    {"predictions", 0, 0, kLongestSequence, "positions of a sample that are guessed, the first ones; 0: all"},
    {"batch", 8, 1, 1'000'000'000, "samples"},
};

class Bert {
 public:
  explicit Bert(const ZooValues& v)
      : values_(v), hidden_(v.at("hidden")), heads_(v.at("heads")), ffn_(v.at("ffn") == 0 ? 4 * hidden_ : v.at("ffn")) {
    require_heads("bert", hidden_, heads_, heads_);
  }

  Graph build() && {
    const TensorId tokens = layers_.parameter("embeddings.word_embeddings.weight", {values_.at("vocab"), hidden_});
    TensorId x = embedded(tokens);
    attention_ = make_attention(layers_, heads_, heads_, hidden_ / heads_);
    for (std::int64_t layer = 0; layer < values_.at("layers"); ++layer) x = block("encoder.layer." + std::to_string(layer), x);
    const std::int64_t seq = values_.at("seq"), guessed = values_.at("predictions");
    if (guessed > 0 && guessed < seq) x = layers_.split("cls.positions", x, 1, {guessed, seq - guessed}).front();
    x = layers_.layer_norm("cls.transform.LayerNorm", layers_.gelu("cls.transform.act", layers_.dense("cls.transform.dense", x, hidden_)));
    const TensorId product = layers_.product_with_rows("cls.decoder", x, tokens);
    const TensorId scores = layers_.add("cls.decoder.add", product, layers_.parameter("cls.decoder.bias", {values_.at("vocab")}));
    return std::move(layers_).finish(scores, "logits");
  }

 private:
  TensorId embedded(TensorId tokens) {
    const std::int64_t seq = values_.at("seq"), asked = values_.at("positions"),
                       rows = asked == 0 ? std::max<std::int64_t>(seq, 512) : std::max(seq, asked);
    const Shape samples = {values_.at("batch"), seq};
    const TensorId words =
        layers_.node("embeddings.words", "Gather", {tokens, layers_.indices("input_ids", samples)}, {{"axis", std::int64_t{0}}});
    TensorId places = layers_.parameter("embeddings.position_embeddings.weight", {rows, hidden_});
    if (rows > seq) places = layers_.split("embeddings.positions", places, 0, {seq, rows - seq}).front();
    const TensorId types = layers_.embedding("embeddings.token_type_embeddings", layers_.indices("token_type_ids", samples), 2, hidden_);
    const TensorId sum = layers_.add("embeddings.sum", layers_.add("embeddings.typed", words, types), places);
    return layers_.dropout("embeddings.dropout", layers_.layer_norm("embeddings.LayerNorm", sum), 0.1);
  }

  TensorId block(const std::string& name, TensorId x) {
    const std::string self = name + ".attention";
    const Projections projected{layers_.dense(self + ".query", x, hidden_), layers_.dense(self + ".key", x, hidden_),
                                layers_.dense(self + ".value", x, hidden_)};
    const TensorId mixed = layers_.dense(self + ".output.dense", attend(layers_, self, projected, attention_), hidden_);
    x = layers_.layer_norm(self + ".output.LayerNorm", layers_.add(self + ".residual", layers_.dropout(self + ".dropout", mixed, 0.1), x));
    const TensorId wide = layers_.gelu(name + ".intermediate.act", layers_.dense(name + ".intermediate.dense", x, ffn_));
    const TensorId narrow = layers_.dropout(name + ".output.dropout", layers_.dense(name + ".output.dense", wide, hidden_), 0.1);
    return layers_.layer_norm(name + ".output.LayerNorm", layers_.add(name + ".output.residual", narrow, x));
  }

  const ZooValues& values_;
  std::int64_t hidden_, heads_, ffn_;
  Layers layers_;
  Attention attention_;
};

constexpr ZooRow kBertRows[] = {{"bert", "BERT with the head that guesses masked tokens (Devlin et al. 2019); the defaults are BERT-base",
                                 kBertParameters, [](const ZooValues& values) { return Bert(values).build(); }}};

}  // namespace

std::span<const ZooRow> encoders() { return kBertRows; }

}  // namespace rehearsal::graph::zoo
