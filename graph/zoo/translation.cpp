// Wu et al., "Google's Neural Machine Translation System", 2016, as NVIDIA's and MLPerf's code has it: four LSTM layers each side, the
// first of the encoder in both directions, additive attention (Bahdanau et al. 2015) by the first layer of the decoder, one embedding
// table for both sides. LSTMs (Hochreiter, Schmidhuber 1997) are unrolled over time.

#include "graph/zoo/layers.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kTranslationParameters[] = {
    {"layers", 4, 2, 100, "LSTM layers of a side"},          {"hidden", 1024, 1, 100'000, "width of a layer"},
    {"enc_seq", 25, 1, 2048, "tokens of a sample's source"}, {"dec_seq", 25, 1, 2048, "tokens of a sample's result"},
    {"vocab", 32'320, 2, 10'000'000, "tokens there are"},    {"batch", 128, 1, 1'000'000'000, "samples"},
};

class Translator {
 public:
  explicit Translator(const ZooValues& v) : values_(v), hidden_(v.at("hidden")), batch_(v.at("batch")) {}

  Graph build() && {
    const std::int64_t layers = values_.at("layers");
    tokens_ = layers_.parameter("embedder.weight", {values_.at("vocab"), hidden_});
    TensorId source = embedded("encoder", "input_ids", "enc_seq");
    source = layers_.concat("encoder.both", {lstm("encoder.0", source, false), lstm("encoder.0.reverse", source, true)}, 2);
    for (std::int64_t i = 1; i < layers; ++i) source = stacked("encoder." + std::to_string(i), source, source, i >= 2);
    TensorId x = lstm("decoder.0", embedded("decoder", "decoder_input_ids", "dec_seq"), false);
    const TensorId context = attention(x, source);
    for (std::int64_t i = 1; i < layers; ++i) {
      const std::string name = "decoder." + std::to_string(i);
      x = stacked(name, x, layers_.concat(name + ".input", {x, context}, 2), i >= 2);
    }
    return std::move(layers_).finish(layers_.dense("classifier", x, values_.at("vocab")), "logits");
  }

 private:
  TensorId embedded(const std::string& side, const std::string& input, const char* length) {
    const TensorId ids = layers_.indices(input, {batch_, values_.at(length)});
    return layers_.node(side + ".embedder", "Gather", {tokens_, ids}, {{"axis", std::int64_t{0}}});
  }

  /// A layer behind dropout, added to its own stream where it has a residual connection.
  TensorId stacked(const std::string& name, TensorId stream, TensorId input, bool residual) {
    const TensorId y = lstm(name, layers_.dropout(name + ".dropout", input, 0.2), false);
    return residual ? layers_.add(name + ".residual", y, stream) : y;
  }

  /// x [batch, time, in] to [batch, time, hidden]; gates in, forget, cell, out.
  TensorId lstm(const std::string& name, TensorId x, bool reverse) {
    const std::int64_t time = layers_.shape(x)[1];
    const auto inputs =
        layers_.split(name + ".times", layers_.dense(name + ".ih", x, 4 * hidden_), 1, Shape(static_cast<std::size_t>(time), 1));
    const TensorId recurrence = layers_.parameter(name + ".hh.weight", {hidden_, 4 * hidden_});
    std::vector<TensorId> results(inputs.size());
    TensorId h = TensorId::None, c = TensorId::None;
    for (std::size_t step = 0; step < inputs.size(); ++step) {
      const std::size_t t = reverse ? inputs.size() - 1 - step : step;
      const std::string at = name + ".t" + std::to_string(t);
      TensorId gates = layers_.reshape(at, inputs[t], {batch_, 4 * hidden_});
      if (step > 0) gates = layers_.add(at + ".gates", gates, layers_.matmul(at + ".hh", h, recurrence));
      const auto g = layers_.split(at + ".split", gates, 1, Shape(4, hidden_));
      const auto squashed = [&](const char* part, const char* op, TensorId gate) { return layers_.node(at + part, op, {gate}); };
      const TensorId fresh = layers_.multiply(at + ".fresh", squashed(".in", "Sigmoid", g[0]), squashed(".new", "Tanh", g[2]));
      c = step == 0 ? fresh : layers_.add(at + ".cell", layers_.multiply(at + ".kept", squashed(".forget", "Sigmoid", g[1]), c), fresh);
      h = layers_.multiply(at + ".hidden", squashed(".out", "Sigmoid", g[3]), squashed(".tanh", "Tanh", c));
      results[t] = layers_.reshape(at + ".result", h, {batch_, 1, hidden_});
    }
    return layers_.concat(name, std::move(results), 1);
  }

  /// Scores v · tanh(query + key), softmax over the source.
  TensorId attention(TensorId x, TensorId source) {
    const std::int64_t queries = layers_.shape(x)[1], keys = layers_.shape(source)[1];
    const TensorId query =
        layers_.reshape("attention.q", layers_.dense("attention.linear_q", x, hidden_, false), {batch_, queries, 1, hidden_});
    const TensorId key =
        layers_.reshape("attention.k", layers_.dense("attention.linear_k", source, hidden_, false), {batch_, 1, keys, hidden_});
    const TensorId sum = layers_.node(
        "attention.tanh", "Tanh",
        {layers_.add("attention.biased", layers_.add("attention.sum", query, key), layers_.parameter("attention.bias", {hidden_}))});
    const TensorId scores =
        layers_.reshape("attention.scores", layers_.dense("attention.linear_att", sum, 1, false), {batch_, queries, keys});
    return layers_.matmul("attention.context", layers_.node("attention.softmax", "Softmax", {scores}, {{"axis", std::int64_t{-1}}}),
                          source);
  }

  const ZooValues& values_;
  std::int64_t hidden_, batch_;
  Layers layers_;
  TensorId tokens_ = TensorId::None;
};

constexpr ZooRow kTranslationRows[] = {{"gnmt", "GNMT with four layers a side (Wu et al. 2016, as in MLPerf Training)",
                                        kTranslationParameters, [](const ZooValues& values) { return Translator(values).build(); }}};

}  // namespace

std::span<const ZooRow> translators() { return kTranslationRows; }

}  // namespace rehearsal::graph::zoo
