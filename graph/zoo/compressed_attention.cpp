#include "graph/zoo/compressed_attention.hpp"

#include "base/error.hpp"
#include "graph/zoo/token_choice.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr double kHidden = -3.4028234663852886e38;

/// Groups of `size` tokens, each made one of `width` features: their values weighed by a softmax over the group. Overlapping groups take
/// half of their values from the group before. `frozen`: weights are not trained.
class Compressor {
 public:
  struct Group {
    std::int64_t size, width;
    bool overlaps, frozen;
  };
  Compressor(Layers& layers, std::string name, const Group& group) : layers_(layers), name_(std::move(name)), g_(group) {}

  /// x [batch, seq, hidden] to [batch, 1, groups, width], turned by the angle of their first token.
  TensorId build(TensorId x, const RotaryTables& rotary) {
    const Shape s = layers_.shape(x);
    batch_ = s[0];
    groups_ = s[1] / g_.size;
    TensorId values = apart(".values", product(".kv_proj", x, all_width()));
    TensorId scores = layers_.add(name_ + ".scores.placed", apart(".scores", product(".gate_proj", x, all_width())),
                                  weight(".position_bias", {g_.size, all_width()}));
    if (g_.overlaps) {
      values = overlapped(".values", values, 0);
      scores = overlapped(".scores", scores, kHidden);
    }
    const TensorId shares = layers_.node(name_ + ".shares", "Softmax", {scores}, {{"axis", std::int64_t{2}}});
    const TensorId sum = layers_.node(name_ + ".sum", "ReduceSum", {layers_.multiply(name_ + ".weighed", values, shares)},
                                      {{"axes", Shape{2}}, {"keepdims", std::int64_t{0}}});
    const TensorId normed = layers_.node(name_ + ".kv_norm", "RMSNormalization", {sum, weight(".kv_norm.weight", {g_.width})},
                                         {{"axis", std::int64_t{-1}}, {"epsilon", 1e-6}});
    const RotaryTables first{first_of_group(".cosine", rotary.cosine), first_of_group(".sine", rotary.sine), rotary.width};
    return rotated(layers_, name_ + ".rotary", layers_.reshape(name_ + ".head", normed, {batch_, 1, groups_, g_.width}), first);
  }

  TensorId product(const std::string& part, TensorId x, std::int64_t out) {
    return layers_.matmul(name_ + part, x, weight(part + ".weight", {layers_.shape(x).back(), out}));
  }

 private:
  [[nodiscard]] std::int64_t all_width() const { return g_.overlaps ? 2 * g_.width : g_.width; }
  TensorId weight(const std::string& part, Shape shape) {
    return g_.frozen ? layers_.builder().add_stored(name_ + part, {DType::F32, std::move(shape)}, TensorRole::Frozen, {})
                     : layers_.parameter(name_ + part, std::move(shape));
  }
  TensorId apart(const std::string& part, TensorId x) {
    return layers_.reshape(name_ + part + ".apart", x, {batch_, groups_, g_.size, all_width()});
  }
  /// The first half of the features of the group before (`outside` before the first), then the second half of the group's own.
  TensorId overlapped(const std::string& part, TensorId x, double outside) {
    const auto halves = layers_.split(name_ + part + ".halves", x, 3, {g_.width, g_.width});
    const TensorId before = layers_.node(name_ + part + ".before", "Pad", {halves[0]},
                                         {{"pads", Shape{1, 0, 0, -1, 0, 0}}, {"mode", std::string("constant")}, {"value", outside}});
    return layers_.concat(name_ + part + ".both", {before, halves[1]}, 2);
  }
  TensorId first_of_group(const std::string& part, TensorId table) {
    const std::int64_t pairs = layers_.shape(table).back();
    const TensorId groups = layers_.reshape(name_ + part + ".groups", table, {groups_, g_.size, pairs});
    const TensorId first = layers_.split(name_ + part + ".first", groups, 1, {1, g_.size - 1}).front();
    return layers_.reshape(name_ + part, first, {groups_, pairs});
  }

  Layers& layers_;
  std::string name_;
  Group g_;
  std::int64_t batch_ = 1, groups_ = 1;
};

/// [seq, groups]: true where all tokens of a group have been seen.
TensorId complete(Layers& layers, const std::string& name, std::int64_t seq, std::int64_t size) {
  const TensorId rows = positions(layers, name + ".rows", {seq, 1}, DType::F32);
  const TensorId columns = positions(layers, name + ".columns", {1, seq / size}, DType::F32);
  const TensorId last =
      layers.add(name + ".last", layers.multiply(name + ".first", columns, layers.constant(name + ".size", static_cast<double>(size))),
                 layers.constant(name + ".rest", static_cast<double>(size - 1)));
  return layers.node(name, "GreaterOrEqual", {rows, last});
}

class Layer {
 public:
  Layer(Layers& layers, std::string name, const CompressedTables& tables)
      : layers_(layers), name_(std::move(name)), a_(tables.sizes), tables_(tables) {}

  TensorId build(TensorId x, BeyondWindow compression) {
    const Shape s = layers_.shape(x);
    const RotaryTables& rotary = compression == BeyondWindow::None ? tables_.plain : tables_.compressed;
    const TensorId narrow = layers_.rms_norm(name_ + ".q_a_norm", layers_.dense(name_ + ".q_a_proj", x, a_.q_rank, false));
    const TensorId q =
        rotated(layers_, name_ + ".q.rotary",
                layers_.rms_norm(name_ + ".q_b_norm",
                                 by_head(".q", layers_.dense(name_ + ".q_b_proj", narrow, a_.heads * a_.width, false), a_.heads), false),
                rotary);
    const TensorId key = layers_.rms_norm(name_ + ".kv_norm", layers_.dense(name_ + ".kv_proj", x, a_.width, false));
    TensorId kv = rotated(layers_, name_ + ".kv.rotary", layers_.reshape(name_ + ".kv.head", key, {s[0], 1, s[1], a_.width}), rotary);
    Attention attention = tables_.attention;
    attention.mask = tables_.near;
    attention.sinks = layers_.parameter(name_ + ".sinks", {a_.heads});
    if (compression != BeyondWindow::None) {
      kv = layers_.concat(name_ + ".kv.all", {kv, compressed(x, compression)}, 2);
      attention.mask = with_compressed(x, narrow, compression);
    }
    const TensorId turned = layers_.transpose(name_ + ".kv.turned", kv, {0, 1, 3, 2});
    return result(attend_by_head(layers_, name_, {q, turned, kv}, attention), rotary);
  }

 private:
  TensorId by_head(const std::string& part, TensorId x, std::int64_t heads) {
    const Shape s = layers_.shape(x);
    return layers_.transpose(name_ + part + ".heads", layers_.reshape(name_ + part + ".split", x, {s[0], s[1], heads, s[2] / heads}),
                             {0, 2, 1, 3});
  }

  TensorId compressed(TensorId x, BeyondWindow compression) {
    const bool few = compression == BeyondWindow::Few;
    return Compressor(layers_, name_ + ".compressor", {few ? a_.few : a_.many, a_.width, few, false}).build(x, tables_.compressed);
  }

  /// The mask of the window, and behind it that of the compressed tokens.
  TensorId with_compressed(TensorId x, TensorId narrow, BeyondWindow compression) {
    const std::int64_t batch = layers_.shape(x)[0], seq = layers_.shape(x)[1];
    if (compression == BeyondWindow::Many)
      return layers_.concat(name_ + ".seen", {tables_.near, complete(layers_, name_ + ".complete", seq, a_.many)}, 1);
    const TensorId near = layers_.node(name_ + ".near", "Expand", {tables_.near}, {{"shape", Shape{batch, 1, seq, seq}}});
    return layers_.concat(name_ + ".seen", {near, chosen(x, narrow)}, 3);
  }

  /// [batch, 1, seq, groups]: the index's choice among the groups of few that are complete.
  TensorId chosen(TensorId x, TensorId narrow) {
    const std::string name = name_ + ".indexer";
    const std::int64_t seq = layers_.shape(x)[1];
    const TensorId still = layers_.node(name + ".x", "StopGradient", {x}), from = layers_.node(name + ".from", "StopGradient", {narrow});
    Compressor index(layers_, name, {a_.few, a_.index_width, true, true});
    const TensorId keys = layers_.transpose(name + ".k.turned", index.build(still, tables_.compressed), {0, 1, 3, 2});
    const TensorId q = rotated(layers_, name + ".q.rotary",
                               by_head(".indexer.q", index.product(".q_b_proj", from, a_.index_heads * a_.index_width), a_.index_heads),
                               tables_.compressed);
    const TensorId weight =
        by_head(".indexer.weight", index.product(".weights_proj", still, a_.index_heads), a_.index_heads);  // [b, h, s, 1]
    const TensorId scores =
        layers_.multiply(name + ".weighed", layers_.relu(name + ".relu", layers_.matmul(name + ".scores", q, keys)), weight);
    const TensorId sum = layers_.node(name + ".sum", "ReduceSum", {scores}, {{"axes", Shape{1}}, {"keepdims", std::int64_t{1}}});
    const TensorId ready = complete(layers_, name + ".complete", seq, a_.few);
    const TensorId allowed = layers_.node(name + ".allowed", "Where", {ready, sum, layers_.constant(name + ".unseen", kHidden)});
    return layers_.node(name + ".seen", "And", {ready, best_scores(layers_, name, allowed, a_.index_top)});
  }

  /// Values are keys, and were turned: what heads give turns back by the query's angle. Then a narrow vector for every group of heads.
  TensorId result(TensorId mixed, const RotaryTables& rotary) {
    const Shape s = layers_.shape(mixed);
    const auto table = [&](const char* part, TensorId t) { return layers_.reshape(name_ + part, t, {s[1], 1, rotary.width / 2}); };
    const RotaryTables back{table(".cosine", rotary.cosine), layers_.node(name_ + ".sine.back", "Neg", {table(".sine", rotary.sine)}),
                            rotary.width};
    const TensorId still =
        rotated(layers_, name_ + ".o.rotary", layers_.reshape(name_ + ".o.heads", mixed, {s[0], s[1], a_.heads, a_.width}), back);
    const std::int64_t groups = a_.out_groups;
    std::vector<TensorId> parts = layers_.split(name_ + ".o.groups", layers_.reshape(name_ + ".o.flat", still, s), 2,
                                                Shape(static_cast<std::size_t>(groups), s[2] / groups));
    for (std::size_t g = 0; g < parts.size(); ++g)
      parts[g] = layers_.dense(name_ + ".o_a_proj." + std::to_string(g), parts[g], a_.out_rank, false);
    return layers_.concat(name_ + ".o.narrow", std::move(parts), 2);
  }

  Layers& layers_;
  std::string name_;
  const CompressedAttention& a_;
  const CompressedTables& tables_;
};

}  // namespace

void require_compressed_attention(const std::string& model, const CompressedAttention& a, std::int64_t seq) {
  const auto refuse = [&](const std::string& why) { throw BadInput("zoo:" + model, why); };
  const auto text = [](const char* name, std::int64_t value) { return std::string(name) + "=" + std::to_string(value); };
  for (const auto& [name, size] : {std::pair{"few", a.few}, std::pair{"many", a.many}})
    if (size < 2 || seq % size != 0)
      refuse(text("seq", seq) + " is not a multiple of " + text(name, size) + ", of which there must be at least 2");
  if (a.turning % 2 != 0 || a.turning > a.width || a.turning > a.index_width)
    refuse(text("rope_dim", a.turning) + " must be an even number of features, at most " + text("head_dim", a.width) + " and " +
           text("index_dim", a.index_width));
  if (a.heads % a.out_groups != 0) refuse(text("heads", a.heads) + " is not a multiple of " + text("o_groups", a.out_groups));
}

CompressedTables compressed_tables(Layers& layers, const CompressedAttention& a, std::int64_t seq, double theta, double compressed_theta) {
  CompressedTables tables;
  tables.sizes = a;
  tables.attention = make_attention(layers, a.heads, a.heads, a.width);
  tables.near = causal_mask(layers, seq);
  if (a.window < seq) tables.near = window_mask(layers, tables.near, a.window, seq);
  tables.plain = make_rotary(layers, "rotary", seq, a.turning, theta);
  tables.compressed = make_rotary(layers, "compressed.rotary", seq, a.turning, compressed_theta);
  return tables;
}

TensorId attend_compressed(Layers& layers, const std::string& name, TensorId x, BeyondWindow compression, const CompressedTables& tables) {
  const std::int64_t hidden = layers.shape(x).back();
  return layers.dense(name + ".o_b_proj", Layer(layers, name, tables).build(x, compression), hidden, false);
}

}  // namespace rehearsal::graph::zoo
