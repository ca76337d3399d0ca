#include "graph/zoo/token_choice.hpp"

#include <algorithm>

namespace rehearsal::graph::zoo {
namespace {

constexpr double kUnseen = -3.4028234663852886e38, kAlways = -kUnseen;

class Index {
 public:
  Index(Layers& layers, std::string name, const TokenIndex& sizes) : layers_(layers), name_(std::move(name)), sizes_(sizes) {}

  /// Sum over heads of weight · relu(query · key), [batch, 1, seq, seq].
  TensorId scores(TensorId x, TensorId queries, const RotaryTables& rotary) {
    const std::int64_t batch = layers_.shape(x)[0], seq = layers_.shape(x)[1], heads = sizes_.heads, width = sizes_.width;
    const TensorId still = layers_.node(name_ + ".x", "StopGradient", {x});
    const TensorId from = layers_.node(name_ + ".from", "StopGradient", {queries});
    const TensorId split = layers_.reshape(name_ + ".q.split", product(".q_proj", from, heads * width), {batch, seq, heads, width});
    const TensorId q = rotated(layers_, name_ + ".q.rotary", layers_.transpose(name_ + ".q.heads", split, {0, 2, 1, 3}), rotary);
    const TensorId key = layers_.reshape(name_ + ".k.split", normed(".k_norm", product(".k_proj", still, width)), {batch, 1, seq, width});
    const TensorId k = layers_.transpose(name_ + ".k.turned", rotated(layers_, name_ + ".k.rotary", key, rotary), {0, 1, 3, 2});
    const TensorId weight =
        layers_.reshape(name_ + ".weight.split", layers_.transpose(name_ + ".weight.heads", product(".weight", still, heads), {0, 2, 1}),
                        {batch, heads, seq, 1});
    const TensorId by_head = layers_.relu(name_ + ".relu", layers_.matmul(name_ + ".scores", q, k));
    return layers_.node(name_ + ".sum", "ReduceSum", {layers_.multiply(name_ + ".weighed", by_head, weight)},
                        {{"axes", Shape{1}}, {"keepdims", std::int64_t{1}}});
  }

  /// True where a score is at least the last of the chosen ones.
  TensorId chosen(TensorId scores, TensorId mask) {
    const TensorId allowed = layers_.node(name_ + ".allowed", "Where", {mask, scores, layers_.constant(name_ + ".unseen", kUnseen)});
    return layers_.node(name_ + ".seen", "And", {mask, best_scores(layers_, name_, allowed, sizes_.top)});
  }

  /// True in the blocks of keys whose best score is at least the last of the chosen ones, and in the query's own: [batch, heads, seq, seq].
  TensorId chosen_blocks(TensorId x, const RotaryTables& rotary, TensorId mask) {
    const Shape scores = {layers_.shape(x)[0], sizes_.heads, layers_.shape(x)[1], layers_.shape(x)[1]};
    const std::int64_t seq = scores[2], size = sizes_.block, blocks = (seq + size - 1) / size;
    TensorId allowed =
        layers_.node(name_ + ".allowed", "Where", {mask, scores_by_head(x, rotary), layers_.constant(name_ + ".unseen", kUnseen)});
    if (blocks * size > seq)
      allowed = layers_.node(name_ + ".padded", "Pad", {allowed},
                             {{"pads", Shape{0, blocks * size - seq}}, {"mode", std::string("constant")}, {"value", kUnseen}});
    const TensorId apart = layers_.reshape(name_ + ".blocks", allowed, {scores[0], scores[1], seq, blocks, size});
    const TensorId best = layers_.node(name_ + ".best", "ReduceMax", {apart}, {{"axes", Shape{4}}, {"keepdims", std::int64_t{0}}});
    const TensorId weighed =
        layers_.node(name_ + ".own", "Where", {elsewhere(seq, blocks), best, layers_.constant(name_ + ".always", kAlways)});
    return layers_.node(name_ + ".seen", "And", {mask, spread(best_scores(layers_, name_, weighed, sizes_.top), seq)});
  }

 private:
  /// query · key, both with a norm: [batch, heads, seq, seq].
  TensorId scores_by_head(TensorId x, const RotaryTables& rotary) {
    const std::int64_t batch = layers_.shape(x)[0], seq = layers_.shape(x)[1], width = sizes_.width;
    const TensorId still = layers_.node(name_ + ".x", "StopGradient", {x});
    const auto vectors = [&](const std::string& part, std::int64_t heads) {
      const TensorId split =
          layers_.reshape(name_ + part + ".split", product(part + "_proj", still, heads * width), {batch, seq, heads, width});
      const TensorId normed = layers_.node(name_ + part + "_norm", "RMSNormalization", {split, weight(part + "_norm.weight", {width})},
                                           {{"axis", std::int64_t{-1}}, {"epsilon", 1e-6}});
      return rotated(layers_, name_ + part + ".rotary", layers_.transpose(name_ + part + ".heads", normed, {0, 2, 1, 3}), rotary);
    };
    const TensorId queries = vectors(".q", sizes_.heads);
    return layers_.matmul(name_ + ".scores", queries, layers_.transpose(name_ + ".k.turned", vectors(".k", 1), {0, 1, 3, 2}));
  }

  /// [seq, blocks]: false where a block has the query's own place, which is chosen whatever its score.
  TensorId elsewhere(std::int64_t seq, std::int64_t blocks) {
    const TensorId size = layers_.constant(name_ + ".block", static_cast<double>(sizes_.block));
    const TensorId rows = positions(layers_, name_ + ".rows", {seq, 1}, DType::F32);
    const TensorId first = layers_.multiply(name_ + ".first", positions(layers_, name_ + ".columns", {1, blocks}, DType::F32), size);
    const TensorId before = layers_.node(name_ + ".before", "Less", {rows, first});
    const TensorId after = layers_.node(name_ + ".after", "GreaterOrEqual", {rows, layers_.add(name_ + ".end", first, size)});
    return layers_.node(name_ + ".elsewhere", "Or", {before, after});
  }

  /// [batch, heads, seq, blocks] to every key of the blocks.
  TensorId spread(TensorId kept, std::int64_t seq) {
    const Shape s = layers_.shape(kept);
    const TensorId apart = layers_.reshape(name_ + ".kept.apart", kept, {s[0], s[1], s[2], s[3], 1});
    const TensorId all = layers_.node(name_ + ".kept.spread", "Expand", {apart}, {{"shape", Shape{s[0], s[1], s[2], s[3], sizes_.block}}});
    const TensorId flat = layers_.reshape(name_ + ".kept.keys", all, {s[0], s[1], s[2], s[3] * sizes_.block});
    const std::int64_t beyond = s[3] * sizes_.block - seq;
    return beyond == 0 ? flat : layers_.split(name_ + ".kept.within", flat, 3, {seq, beyond}).front();
  }

  TensorId weight(const std::string& part, Shape shape) {
    return layers_.builder().add_stored(name_ + part, {DType::F32, std::move(shape)}, TensorRole::Frozen, {});
  }
  TensorId product(const std::string& part, TensorId x, std::int64_t out) {
    return layers_.matmul(name_ + part, x, weight(part + ".weight", {layers_.shape(x).back(), out}));
  }
  TensorId normed(const std::string& part, TensorId x) {
    const Shape width = {layers_.shape(x).back()};
    return layers_.node(name_ + part, "LayerNormalization", {x, weight(part + ".weight", width), weight(part + ".bias", width)},
                        {{"axis", std::int64_t{-1}}, {"epsilon", 1e-6}});
  }

  Layers& layers_;
  std::string name_;
  TokenIndex sizes_;
};

}  // namespace

TensorId best_scores(Layers& layers, const std::string& name, TensorId scores, std::int64_t top) {
  const std::int64_t count = layers.shape(scores).back();
  const auto best = layers.builder().add("TopK", {scores}, {{"axis", std::int64_t{-1}}, {"k", std::min(top, count)}},
                                         {name + ".top", Phase::Forward, NodeId::None, {}});
  const TensorId last = layers.node(name + ".last", "ReduceMin", {best[0]}, {{"axes", Shape{3}}, {"keepdims", std::int64_t{1}}});
  return layers.node(name + ".kept", "GreaterOrEqual", {scores, last});
}

TensorId chosen_tokens(Layers& layers, const std::string& name, const LatentInput& input, const TokenIndex& sizes,
                       const Attention& attention) {
  Index index(layers, name, sizes);
  if (sizes.block > 0) {
    const TensorId seen = index.chosen_blocks(input.x, attention.rotary, attention.mask);
    if (attention.heads == attention.kv_heads) return seen;
    const Shape s = layers.shape(seen);
    return layers.reshape(name + ".seen.by_group", seen, {s[0], s[1], 1, s[2], s[3]});
  }
  return index.chosen(index.scores(input.x, input.queries, attention.rotary), attention.mask);
}

}  // namespace rehearsal::graph::zoo
