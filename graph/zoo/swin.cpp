// Liu et al., "Swin Transformer", ICCV 2021, figure 3 and table 7, without the dropping of whole blocks. The windows of every second block
// are shifted by rolling the image, so that windows at its edge hold both ends; the mask between these ends is left out.

#include <array>
#include <cmath>

#include "base/error.hpp"
#include "graph/zoo/attention.hpp"
#include "graph/zoo/image_network.hpp"

namespace rehearsal::graph::zoo {
namespace {

struct SwinSize {
  std::array<int, 4> blocks;
  std::int64_t channels, heads;
};
constexpr std::int64_t kSwinWindow = 7, kTokens = kSwinWindow * kSwinWindow, kPatch = 4;

class Swin {
 public:
  Swin(const SwinSize& size, const ZooValues& values) : size_(size), values_(values), batch_(values.at("batch")) {}

  Graph build() && {
    side_ = values_.at("image") / kPatch;
    if (values_.at("image") % (kPatch * kSwinWindow * 8) != 0)
      throw BadInput("zoo:swin", "image=" + std::to_string(values_.at("image")) + " is not a multiple of 224");
    TensorId x = layers_.conv("patches", layers_.image(batch_, 3, values_.at("image")), size_.channels, {kPatch, kPatch, 0}, true);
    x = layers_.layer_norm("patches.norm", layers_.transpose("patches.last", x, {0, 2, 3, 1}));
    for (std::size_t stage = 0; stage < 4; ++stage) {
      const std::string name = "layers." + std::to_string(stage);
      if (stage > 0) x = merged(name + ".downsample", x);
      for (int b = 0; b < size_.blocks[stage]; ++b)
        x = block(name + "." + std::to_string(b), x, size_.heads << stage, b % 2 == 1 && side_ > kSwinWindow);
    }
    x = layers_.layer_norm("norm", x);
    x = layers_.global_average("avgpool", layers_.transpose("first", x, {0, 3, 1, 2}));
    return std::move(layers_).finish(layers_.linear("head", x, values_.at("classes")), "logits");
  }

 private:
  /// Four neighbours become one token of twice the channels.
  TensorId merged(const std::string& name, TensorId x) {
    const std::int64_t c = layers_.shape(x).back();
    side_ /= 2;
    x = layers_.reshape(name + ".pairs", x, {batch_, side_, 2, side_, 2, c});
    x = layers_.reshape(name + ".joined", layers_.transpose(name + ".neighbours", x, {0, 1, 3, 2, 4, 5}), {batch_, side_, side_, 4 * c});
    return layers_.dense(name, layers_.layer_norm(name + ".norm", x), 2 * c, false);
  }

  /// The image rolled by `by` rows and columns: what leaves at one end comes in at the other.
  TensorId rolled(const std::string& name, TensorId x, std::int64_t by) {
    for (const std::int64_t axis : {1, 2}) {
      const std::string n = name + std::to_string(axis);
      const auto parts = layers_.split(n + ".parts", x, axis, {by, side_ - by});
      x = layers_.concat(n, {parts[1], parts[0]}, axis);
    }
    return x;
  }

  TensorId windows(const std::string& name, TensorId x) {
    const std::int64_t c = layers_.shape(x).back(), n = side_ / kSwinWindow;
    x = layers_.transpose(name, layers_.reshape(name + ".cut", x, {batch_, n, kSwinWindow, n, kSwinWindow, c}), {0, 1, 3, 2, 4, 5});
    return layers_.reshape(name + ".tokens", x, {batch_ * n * n, kTokens, c});
  }
  TensorId image(const std::string& name, TensorId x) {
    const std::int64_t c = layers_.shape(x).back(), n = side_ / kSwinWindow;
    x = layers_.transpose(name, layers_.reshape(name + ".cut", x, {batch_, n, n, kSwinWindow, kSwinWindow, c}), {0, 1, 3, 2, 4, 5});
    return layers_.reshape(name + ".joined", x, {batch_, side_, side_, c});
  }

  /// Learned for every difference of places in a window: [heads, tokens, tokens].
  TensorId position_bias(const std::string& name, std::int64_t heads) {
    constexpr std::int64_t kSide = 2 * kSwinWindow - 1;
    std::vector<std::int64_t> index;
    for (std::int64_t a = 0; a < kTokens; ++a)
      for (std::int64_t b = 0; b < kTokens; ++b)
        index.push_back((a / kSwinWindow - b / kSwinWindow + kSwinWindow - 1) * kSide +
                        (a % kSwinWindow - b % kSwinWindow + kSwinWindow - 1));
    const TensorId table = layers_.parameter(name + ".table", {kSide * kSide, heads});
    const TensorId places = layers_.builder().add_constant(name + ".places", Value::of_integers(std::move(index), {kTokens * kTokens}));
    const TensorId rows = layers_.node(name + ".rows", "Gather", {table, places}, {{"axis", std::int64_t{0}}});
    return layers_.reshape(name, layers_.transpose(name + ".by_head", rows, {1, 0}), {heads, kTokens, kTokens});
  }

  TensorId block(const std::string& name, TensorId x, std::int64_t heads, bool shifted) {
    const std::int64_t c = layers_.shape(x).back();
    const Shape whole = layers_.shape(x);
    TensorId y = layers_.layer_norm(name + ".norm1", x);
    if (shifted) y = rolled(name + ".rolled", y, kSwinWindow / 2);
    y = windows(name + ".windows", y);
    const auto parts = layers_.split(name + ".split", layers_.dense(name + ".qkv", y, 3 * c), 2, Shape(3, c));
    Attention attention;
    attention.heads = attention.kv_heads = heads;
    attention.scale = layers_.constant(name + ".scale", 1 / std::sqrt(static_cast<double>(c / heads)));
    attention.bias = position_bias(name + ".bias", heads);
    y = layers_.dense(name + ".proj", attend(layers_, name + ".attention", {parts[0], parts[1], parts[2]}, attention), c);
    y = image(name + ".image", y);
    if (shifted) y = rolled(name + ".back", y, side_ - kSwinWindow / 2);
    x = layers_.add(name + ".residual", x, y);
    const TensorId wide = layers_.gelu(name + ".act", layers_.dense(name + ".fc1", layers_.layer_norm(name + ".norm2", x), 4 * c));
    return layers_.add(name, x, layers_.dense(name + ".fc2", wide, c));
  }

  SwinSize size_;
  const ZooValues& values_;
  std::int64_t batch_, side_ = 0;
  Layers layers_;
};

template <SwinSize kSize>
Graph swin(const ZooValues& values) {
  return Swin(kSize, values).build();
}

constexpr auto kSwinParameters = image_parameters(224, 224);
constexpr ZooRow kSwinRows[] = {
    {"swin_tiny", "Swin-T (Liu et al. 2021)", kSwinParameters, swin<SwinSize{{2, 2, 6, 2}, 96, 3}>},
    {"swin_small", "Swin-S (Liu et al. 2021)", kSwinParameters, swin<SwinSize{{2, 2, 18, 2}, 96, 3}>},
    {"swin_base", "Swin-B (Liu et al. 2021)", kSwinParameters, swin<SwinSize{{2, 2, 18, 2}, 128, 4}>},
    {"swin_large", "Swin-L (Liu et al. 2021)", kSwinParameters, swin<SwinSize{{2, 2, 18, 2}, 192, 6}>},
};

}  // namespace

std::span<const ZooRow> window_transformers() { return kSwinRows; }

}  // namespace rehearsal::graph::zoo
