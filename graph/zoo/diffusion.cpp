// Rombach et al., "High-Resolution Image Synthesis with Latent Diffusion Models", CVPR 2022, appendix E: the denoising U-Net as Stable
// Diffusion 2 has it (residual blocks with the time, attention over the image and over a text). The time comes as its sines and cosines;
// the loss inside is the mean squared error of the noise.

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "graph/training.hpp"
#include "graph/zoo/attention.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kDiffusionParameters[] = {
    {"image", 64, 8, 4096, "height and width of the latent image, a multiple of 8"},
    {"channels", 320, 1, 100'000, "channels of the first level, a multiple of head and groups; 1, 2, 4, 4 times as many below"},
    {"head", 64, 1, 10'000, "features of an attention head"},
    {"groups", 32, 1, 10'000, "groups of a normalization"},
    {"context", 1024, 1, 100'000, "features of a text token"},
    {"tokens", 77, 1, 100'000, "tokens of the text"},
    {"batch", 4, 1, 1'000'000'000, "samples"},
};
constexpr std::int64_t kTimes[] = {1, 2, 4, 4};  ///< channels of the levels
constexpr std::size_t kLevels = std::size(kTimes), kAttended = 3;
constexpr int kBlocks = 2;
constexpr std::int64_t kLatent = 4;

class Denoiser {
 public:
  explicit Denoiser(const ZooValues& v) : values_(v), channels_(v.at("channels")) {
    if (channels_ % v.at("head") != 0 || channels_ % v.at("groups") != 0)
      throw BadInput("zoo:diffusion", "channels=" + std::to_string(channels_) + " is not a multiple of head=" +
                                          std::to_string(v.at("head")) + " and groups=" + std::to_string(v.at("groups")));
    if (v.at("image") % 8 != 0) throw BadInput("zoo:diffusion", "image=" + std::to_string(v.at("image")) + " cannot be halved three times");
  }

  Graph build() && {
    const std::int64_t batch = values_.at("batch"), image = values_.at("image");
    const Shape latent = {batch, kLatent, image, image};
    const TensorId noisy = layers_.input("latents", latent);
    const TensorId wave = layers_.input("time", {batch, channels_});
    text_ = layers_.input("context", {batch, values_.at("tokens"), values_.at("context")});
    time_ = layers_.dense("time_embedding.2", layers_.silu("time_embedding.act", layers_.dense("time_embedding.1", wave, 4 * channels_)),
                          4 * channels_);
    time_ = layers_.silu("time.act", time_);
    TensorId x = up(middle(down(layers_.conv("conv_in", noisy, channels_, {3, 1, 1}, true))));
    x = layers_.conv("conv_out", layers_.silu("conv_out.act", norm("conv_norm_out", x)), kLatent, {3, 1, 1}, true);
    const TensorId noise = layers_.input("noise", latent);
    const auto rows = loss_table();
    const auto mse = std::find_if(rows.begin(), rows.end(), [](const LossRow& row) { return row.name == "mse"; });
    const TensorId loss = mse->build(layers_.builder(), x, noise);
    return std::move(layers_).finish({x, loss}, {"predicted_noise", "loss"});
  }

 private:
  TensorId norm(const std::string& name, TensorId x) { return layers_.group_norm(name, x, values_.at("groups")); }

  TensorId residual(const std::string& name, TensorId x, std::int64_t channels) {
    TensorId y = layers_.conv(name + ".conv1", layers_.silu(name + ".act1", norm(name + ".norm1", x)), channels, {3, 1, 1}, true);
    const TensorId time =
        layers_.reshape(name + ".time", layers_.dense(name + ".time_emb_proj", time_, channels), {values_.at("batch"), channels, 1, 1});
    y = layers_.silu(name + ".act2", norm(name + ".norm2", layers_.add(name + ".timed", y, time)));
    y = layers_.conv(name + ".conv2", y, channels, {3, 1, 1}, true);
    const TensorId shortcut = layers_.shape(x)[1] == channels ? x : layers_.conv(name + ".conv_shortcut", x, channels, {1, 1, 0}, true);
    return layers_.add(name + ".residual", shortcut, y);
  }

  TensorId attended(const std::string& name, TensorId x, TensorId source) {
    const std::int64_t width = layers_.shape(x)[2];
    const std::string own = name + ".norm";
    const TensorId normed = layers_.layer_norm(own, x), from = source == TensorId::None ? normed : source;
    Attention attention;
    attention.heads = attention.kv_heads = width / values_.at("head");
    attention.scale = layers_.constant(name + ".scale_by", 1 / std::sqrt(static_cast<double>(values_.at("head"))));
    const Projections projected{layers_.dense(name + ".to_q", normed, width, false), layers_.dense(name + ".to_k", from, width, false),
                                layers_.dense(name + ".to_v", from, width, false)};
    return layers_.add(name + ".residual", x, layers_.dense(name + ".to_out", attend(layers_, name, projected, attention), width));
  }

  TensorId transformer(const std::string& name, TensorId image) {
    const Shape s = layers_.shape(image);
    const TensorId flat = layers_.reshape(name + ".flat", norm(name + ".norm", image), {s[0], s[1], s[2] * s[3]});
    TensorId x = layers_.dense(name + ".proj_in", layers_.transpose(name + ".words", flat, {0, 2, 1}), s[1]);
    x = attended(name + ".attn1", x, TensorId::None);
    x = attended(name + ".attn2", x, text_);
    const auto halves = layers_.split(
        name + ".ff.split", layers_.dense(name + ".ff.proj", layers_.layer_norm(name + ".norm3", x), 8 * s[1]), 2, Shape(2, 4 * s[1]));
    const TensorId gated = layers_.multiply(name + ".ff.gated", halves[0], layers_.gelu(name + ".ff.act", halves[1]));
    x = layers_.add(name + ".ff.residual", x, layers_.dense(name + ".ff.out", gated, s[1]));
    x = layers_.transpose(name + ".image", layers_.dense(name + ".proj_out", x, s[1]), {0, 2, 1});
    return layers_.add(name + ".residual", image, layers_.reshape(name + ".back", x, s));
  }

  TensorId down(TensorId x) {
    skips_.push_back(x);
    for (std::size_t level = 0; level < kLevels; ++level) {
      const std::string name = "down_blocks." + std::to_string(level);
      for (int b = 0; b < kBlocks; ++b) {
        x = residual(name + ".resnets." + std::to_string(b), x, channels_ * kTimes[level]);
        if (level < kAttended) x = transformer(name + ".attentions." + std::to_string(b), x);
        skips_.push_back(x);
      }
      if (level + 1 == kLevels) break;
      x = layers_.conv(name + ".downsample", x, layers_.shape(x)[1], {3, 2, 1}, true);
      skips_.push_back(x);
    }
    return x;
  }

  TensorId middle(TensorId x) {
    x = residual("mid_block.resnets.0", x, layers_.shape(x)[1]);
    return residual("mid_block.resnets.1", transformer("mid_block.attentions.0", x), layers_.shape(x)[1]);
  }

  TensorId up(TensorId x) {
    for (std::size_t level = kLevels; level-- > 0;) {
      const std::string name = "up_blocks." + std::to_string(level);
      for (int b = 0; b <= kBlocks; ++b) {
        const std::string n = std::to_string(b);
        x = residual(name + ".resnets." + n, layers_.concat(name + ".concat." + n, {x, skips_.back()}), channels_ * kTimes[level]);
        skips_.pop_back();
        if (level < kAttended) x = transformer(name + ".attentions." + n, x);
      }
      if (level == 0) break;
      const Shape s = layers_.shape(x);
      x = layers_.node(name + ".larger", "Resize", {x}, {{"sizes", Shape{2 * s[2], 2 * s[3]}}, {"mode", std::string("nearest")}});
      x = layers_.conv(name + ".upsample", x, s[1], {3, 1, 1}, true);
    }
    return x;
  }

  const ZooValues& values_;
  std::int64_t channels_;
  Layers layers_;
  TensorId time_ = TensorId::None, text_ = TensorId::None;
  std::vector<TensorId> skips_;
};

constexpr ZooRow kDiffusionRows[] = {{"diffusion", "U-Net of latent diffusion (Rombach et al. 2022); the defaults are Stable Diffusion 2",
                                      kDiffusionParameters, [](const ZooValues& values) { return Denoiser(values).build(); }}};

}  // namespace

std::span<const ZooRow> denoisers() { return kDiffusionRows; }

}  // namespace rehearsal::graph::zoo
