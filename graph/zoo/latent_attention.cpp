#include "graph/zoo/latent_attention.hpp"

namespace rehearsal::graph::zoo {
namespace {

/// [batch, seq, heads · width] to [batch, heads, seq, width].
TensorId by_head(Layers& layers, const std::string& name, TensorId x, std::int64_t heads) {
  const Shape s = layers.shape(x);
  return layers.transpose(name + ".heads", layers.reshape(name + ".split", x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

TensorId queries_by_head(Layers& layers, const std::string& name, TensorId x, const LatentSizes& sizes, const Attention& attention) {
  const std::int64_t width = attention.heads * (sizes.still + sizes.turning);
  const std::string product = sizes.q_rank > 0 ? ".q_b_proj" : ".q_proj";
  const TensorId q = by_head(layers, name + ".q", layers.dense(name + product, x, width, false), attention.heads);
  const auto parts = layers.split(name + ".q.parts", q, -1, {sizes.still, sizes.turning});
  return layers.concat(name + ".q", {parts[0], rotated(layers, name + ".q.rotary", parts[1], attention.rotary)}, -1);
}

}  // namespace

TensorId narrow_queries(Layers& layers, const std::string& name, TensorId x, const LatentSizes& sizes) {
  return sizes.q_rank > 0 ? layers.rms_norm(name + ".q_a_norm", layers.dense(name + ".q_a_proj", x, sizes.q_rank, false)) : x;
}

TensorId attend_latent(Layers& layers, const std::string& name, const LatentInput& input, const LatentSizes& sizes,
                       const Attention& attention) {
  const TensorId x = input.x;
  const std::int64_t batch = layers.shape(x)[0], seq = layers.shape(x)[1], heads = attention.heads;
  const TensorId q = queries_by_head(layers, name, input.queries, sizes, attention);
  const auto narrow = layers.split(name + ".kv_a", layers.dense(name + ".kv_a_proj", x, sizes.kv_rank + sizes.turning, false), 2,
                                   {sizes.kv_rank, sizes.turning});
  const TensorId latent = layers.rms_norm(name + ".kv_a_norm", narrow[0]);
  const TensorId wide = layers.dense(name + ".kv_b_proj", latent, heads * (sizes.still + sizes.value_size), false);
  const auto parts = layers.split(name + ".kv_b", by_head(layers, name + ".kv", wide, heads), -1, {sizes.still, sizes.value_size});
  const TensorId shared =
      rotated(layers, name + ".k.rotary", layers.reshape(name + ".k.shared", narrow[1], {batch, 1, seq, sizes.turning}), attention.rotary);
  const TensorId turning = layers.node(name + ".k.turning", "Expand", {shared}, {{"shape", Shape{batch, heads, seq, sizes.turning}}});
  const TensorId k = layers.transpose(name + ".k.transposed", layers.concat(name + ".k", {parts[0], turning}, -1), {0, 1, 3, 2});
  return attend_by_head(layers, name, {q, k, parts[1]}, attention);
}

}  // namespace rehearsal::graph::zoo
