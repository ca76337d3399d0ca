// Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021. Fully connected weights of the blocks are [in, out].

#include "base/error.hpp"
#include "graph/zoo/attention.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kVisionTransformerParameters[] = {
    {"image", 224, 2, 4096, "height and width, a multiple of patch"},
    {"patch", 16, 1, 1024, "height and width of a patch"},
    {"layers", 12, 1, 10'000, "transformer blocks"},
    {"hidden", 768, 1, 1'000'000, "width of the residual stream, a multiple of heads"},
    {"heads", 12, 1, 100'000, "attention heads"},
    {"ffn", 0, 0, 10'000'000, "width of the feed-forward layer; 0: 4 hidden"},
    {"classes", 1000, 1, 1'000'000, "size of the result"},
    {"batch", 8, 1, 1'000'000'000, "samples"},
};

class VisionTransformer {
 public:
  explicit VisionTransformer(const ZooValues& v)
      : values_(v), hidden_(v.at("hidden")), heads_(v.at("heads")), ffn_(v.at("ffn") == 0 ? 4 * hidden_ : v.at("ffn")) {
    require_heads("vit", hidden_, heads_, heads_);
    if (v.at("image") % v.at("patch") != 0)
      throw BadInput("zoo:vit", "image=" + std::to_string(v.at("image")) + " is not a multiple of patch=" + std::to_string(v.at("patch")));
  }

  Graph build() && {
    TensorId x = embedded();
    attention_ = make_attention(layers_, heads_, heads_, hidden_ / heads_);
    for (std::int64_t layer = 0; layer < values_.at("layers"); ++layer) x = block("encoder.layers." + std::to_string(layer), x);
    x = layers_.layer_norm("encoder.ln", x);
    const std::int64_t tokens = layers_.shape(x)[1];
    const TensorId first =
        layers_.reshape("class_result", layers_.split("first", x, 1, {1, tokens - 1}).front(), {values_.at("batch"), hidden_});
    return std::move(layers_).finish(layers_.linear("heads.head", first, values_.at("classes")), "logits");
  }

 private:
  /// Patches behind a class token, plus learned positions.
  TensorId embedded() {
    const std::int64_t batch = values_.at("batch"), patch = values_.at("patch"), image = values_.at("image"), side = image / patch;
    const TensorId patches = layers_.conv("conv_proj", layers_.image(batch, 3, image), hidden_, {patch, patch, 0}, true);
    const TensorId words =
        layers_.transpose("patches", layers_.reshape("conv_proj.flat", patches, {batch, hidden_, side * side}), {0, 2, 1});
    const TensorId token = layers_.node("class_token.expanded", "Expand", {layers_.parameter("class_token", {1, 1, hidden_})},
                                        {{"shape", Shape{batch, 1, hidden_}}});
    return layers_.add("embedded", layers_.concat("tokens", {token, words}, 1),
                       layers_.parameter("encoder.pos_embedding", {1, side * side + 1, hidden_}));
  }

  TensorId block(const std::string& name, TensorId x) {
    const std::string self = name + ".self_attention";
    const auto parts = layers_.split(self + ".split", layers_.dense(self + ".in_proj", layers_.layer_norm(name + ".ln_1", x), 3 * hidden_),
                                     2, Shape(3, hidden_));
    const TensorId mixed = layers_.dense(self + ".out_proj", attend(layers_, self, {parts[0], parts[1], parts[2]}, attention_), hidden_);
    x = layers_.add(self + ".residual", x, mixed);
    const TensorId wide = layers_.gelu(name + ".mlp.act", layers_.dense(name + ".mlp.0", layers_.layer_norm(name + ".ln_2", x), ffn_));
    return layers_.add(name + ".mlp.residual", x, layers_.dense(name + ".mlp.3", wide, hidden_));
  }

  const ZooValues& values_;
  std::int64_t hidden_, heads_, ffn_;
  Layers layers_;
  Attention attention_;
};

constexpr ZooRow kVisionTransformerRows[] = {{"vit", "Vision Transformer (Dosovitskiy et al. 2021); the defaults are ViT-B/16",
                                              kVisionTransformerParameters,
                                              [](const ZooValues& values) { return VisionTransformer(values).build(); }}};

}  // namespace

std::span<const ZooRow> vision_transformers() { return kVisionTransformerRows; }

}  // namespace rehearsal::graph::zoo
