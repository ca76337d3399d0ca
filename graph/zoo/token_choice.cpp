#include "graph/zoo/token_choice.hpp"

#include <algorithm>

namespace rehearsal::graph::zoo {
namespace {

constexpr double kUnseen = -3.4028234663852886e38;

class Index {
 public:
  Index(Layers& layers, std::string name, const TokenIndex& sizes) : layers_(layers), name_(std::move(name)), sizes_(sizes) {}

  /// Sum over heads of weight · relu(query · key), [batch, 1, seq, seq].
  TensorId scores(TensorId x, TensorId queries, const Rotary& rotary) {
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
    const std::int64_t seq = layers_.shape(scores).back();
    const TensorId allowed = layers_.node(name_ + ".allowed", "Where", {mask, scores, layers_.constant(name_ + ".unseen", kUnseen)});
    const auto best = layers_.builder().add("TopK", {allowed}, {{"axis", std::int64_t{-1}}, {"k", std::min(sizes_.top, seq)}},
                                            {name_ + ".top", Phase::Forward, NodeId::None, {}});
    const TensorId last = layers_.node(name_ + ".last", "ReduceMin", {best[0]}, {{"axes", Shape{3}}, {"keepdims", std::int64_t{1}}});
    const TensorId kept = layers_.node(name_ + ".kept", "GreaterOrEqual", {allowed, last});
    return layers_.node(name_ + ".seen", "And", {mask, kept});
  }

 private:
  TensorId weight(const std::string& part, Shape shape) {
    return layers_.builder().add_stored(name_ + part, {DType::F32, std::move(shape)}, Role::Frozen, {});
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

TensorId chosen_tokens(Layers& layers, const std::string& name, const LatentInput& input, const TokenIndex& sizes,
                       const Attention& attention) {
  Index index(layers, name, sizes);
  return index.chosen(index.scores(input.x, input.queries, attention.rotary), attention.mask);
}

}  // namespace rehearsal::graph::zoo
