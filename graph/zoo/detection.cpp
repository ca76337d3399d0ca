// Liu et al., "SSD: Single Shot MultiBox Detector", ECCV 2016, on a residual trunk whose third stage keeps its resolution (as NVIDIA's and
// MLPerf's code has it); Lin et al., "Focal Loss for Dense Object Detection" (RetinaNet), ICCV 2017, and the trunk of He et al., "Mask
// R-CNN", ICCV 2017 with its region proposals, on feature pyramids (Lin et al., CVPR 2017). Labels and boxes come matched to the anchors;
// the loss inside is cross-entropy over the classes plus Huber's function of the boxes, RetinaNet's focal weights are left out.

#include "graph/losses.hpp"
#include "graph/zoo/resnet.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr std::int64_t kCorners = 4;

/// Collects what heads say about anchors and ends in the loss.
class Detector {
 public:
  explicit Detector(std::int64_t classes) : classes_(classes) {}
  [[nodiscard]] ImageNetwork& net() { return net_; }
  [[nodiscard]] Layers& layers() { return net_.layers(); }

  /// Convolution with weights of a name, made when they are first asked for: heads share them over levels.
  TensorId shared_conv(const std::string& name, const std::string& weights, TensorId x, std::int64_t channels) {
    const FilterWindow kernel = FilterWindow::of({3, 1, 1});
    const auto stored = [&](const std::string& part, const Shape& shape) {
      const TensorId found = layers().builder().find(weights + part);
      return found != TensorId::None ? found : layers().parameter(weights + part, shape);
    };
    return layers().node(name, "Conv", {x, stored(".weight", {channels, layers().shape(x)[1], 3, 3}), stored(".bias", {channels})},
                         {{"kernel_shape", kernel.size}, {"strides", kernel.stride}, {"pads", Shape(4, 1)}});
  }

  /// [batch, anchors · values, height, width] for scores and boxes of one level.
  void add(const std::string& name, TensorId scores, TensorId boxes, std::int64_t anchors) {
    scores_.push_back(by_anchor(name + ".scores", scores, anchors, classes_));
    boxes_.push_back(by_anchor(name + ".boxes", boxes, anchors, kCorners));
  }

  Graph finish() && {
    const TensorId scores = layers().concat("all_scores", scores_, 2), boxes = layers().concat("all_boxes", boxes_, 2);
    const Shape shape = layers().shape(boxes);
    const TensorId labels = layers().indices("labels", {shape[0], shape[2]}), wanted = layers().input("boxes", shape);
    GraphBuilder& builder = layers().builder();
    const TensorId classified = add_cross_entropy(builder, {.scores = scores, .target = labels});
    const TensorId placed = huber(layers().node("difference", "Sub", {boxes, wanted}));
    const TensorId loss = builder.add1("Add", {classified, placed});
    return std::move(net_.layers()).finish({scores, boxes, loss}, {"scores", "locations", "loss"});
  }

 private:
  TensorId by_anchor(const std::string& name, TensorId x, std::int64_t anchors, std::int64_t values) {
    const Shape s = layers().shape(x);
    const TensorId apart = layers().reshape(name + ".apart", x, {s[0], anchors, values, s[2] * s[3]});
    const TensorId turned = layers().transpose(name + ".turned", apart, {0, 2, 3, 1});
    return layers().reshape(name + ".flat", turned, {s[0], values, s[2] * s[3] * anchors});
  }

  /// Mean of d²/2 up to 1 and |d| - 1/2 beyond, in f64.
  TensorId huber(TensorId d) {
    const TensorId size = layers().node("huber.size", "Abs", {d}), half = layers().constant("huber.half", 0.5),
                   one = layers().constant("huber.one", 1);
    const TensorId near = layers().multiply("huber.near", half, layers().multiply("huber.square", d, d));
    const TensorId far = layers().node("huber.far", "Sub", {size, half});
    const TensorId value = layers().node("huber", "Where", {layers().node("huber.is_near", "Less", {size, one}), near, far});
    const double scale = 1.0 / static_cast<double>(element_count(layers().shape(d)));
    return layers().node("huber.mean", "ReduceSum", {layers().node("huber.wide", "Cast", {value}, {{"to", std::string("f64")}})},
                         {{"axes", Shape{0, 1, 2}}, {"keepdims", std::int64_t{0}}, {"scale", scale}});
  }

  std::int64_t classes_;
  ImageNetwork net_;
  std::vector<TensorId> scores_, boxes_;
};

constexpr ZooParameter detector_image(std::int64_t size, std::int64_t least) { return {"image", size, least, 4096, "height and width"}; }
constexpr ZooParameter detector_classes(std::int64_t n) {
  return {"classes", n, 2, 100'000, "kinds of objects, background included where the model has it"};
}
constexpr ZooParameter kDetectionBatch = {"batch", 4, 1, 1'000'000'000, "samples"};
constexpr ZooParameter kSsd[] = {detector_image(300, 258), detector_classes(81), kDetectionBatch};
constexpr ZooParameter kRetina[] = {detector_image(800, 64), detector_classes(91), kDetectionBatch};
constexpr ZooParameter kProposals[] = {detector_image(800, 64), kDetectionBatch};

template <const ResNetArchitecture& kTrunk>
Graph ssd(const ZooValues& values) {
  Detector detector(values.at("classes"));
  Layers& layers = detector.layers();
  ResNetArchitecture trunk = kTrunk;
  trunk.strides[2] = 1;
  TensorId x = resnet_stages(detector.net(), trunk, layers.image(values.at("batch"), 3, values.at("image")), 3).back();
  struct Extra {
    std::int64_t few, channels, stride, pad;
  };
  constexpr Extra kExtras[] = {{256, 512, 2, 1}, {256, 512, 2, 1}, {128, 256, 2, 1}, {128, 256, 1, 0}, {128, 256, 1, 0}};
  constexpr std::int64_t kAnchors[] = {4, 6, 6, 6, 4, 4};
  for (std::size_t level = 0; level < std::size(kAnchors); ++level) {
    const std::string name = "level" + std::to_string(level);
    if (level > 0) {
      const Extra& e = kExtras[level - 1];
      x = detector.net().unit(name + ".a", x, e.few, {1, 1, 0});
      x = detector.net().unit(name + ".b", x, e.channels, {3, e.stride, e.pad});
    }
    const std::int64_t anchors = kAnchors[level];
    detector.add(name, layers.conv(name + ".conf", x, anchors * values.at("classes"), {3, 1, 1}, true),
                 layers.conv(name + ".loc", x, anchors * kCorners, {3, 1, 1}, true), anchors);
  }
  return std::move(detector).finish();
}

/// P3 to P5 from the last three stages (P2 too from four), 256 channels each.
std::vector<TensorId> pyramid(Layers& layers, const std::vector<TensorId>& stages) {
  constexpr std::int64_t kChannels = 256;
  std::vector<TensorId> levels(stages.size());
  TensorId above = TensorId::None;
  for (std::size_t level = stages.size(); level-- > 0;) {
    const std::string name = "fpn." + std::to_string(level);
    TensorId x = layers.conv(name + ".inner", stages[level], kChannels, {1, 1, 0}, true);
    if (above != TensorId::None) {
      const Shape size = layers.shape(x);
      const Attributes nearest = {{"sizes", Shape{size[2], size[3]}}, {"mode", std::string("nearest")}};
      x = layers.add(name + ".sum", x, layers.node(name + ".larger", "Resize", {above}, nearest));
    }
    above = x;
    levels[level] = layers.conv(name + ".layer", x, kChannels, {3, 1, 1}, true);
  }
  return levels;
}

template <const ResNetArchitecture& kTrunk>
Graph retinanet(const ZooValues& values) {
  constexpr std::int64_t kAnchors = 9;
  Detector detector(values.at("classes"));
  Layers& layers = detector.layers();
  const auto stages = resnet_stages(detector.net(), kTrunk, layers.image(values.at("batch"), 3, values.at("image")));
  auto levels = pyramid(layers, {stages.begin() + 1, stages.end()});
  levels.push_back(layers.conv("fpn.p6", levels.back(), 256, {3, 2, 1}, true));
  levels.push_back(layers.conv("fpn.p7", layers.relu("fpn.p6.relu", levels.back()), 256, {3, 2, 1}, true));
  for (std::size_t level = 0; level < levels.size(); ++level) {
    const std::string place = ".p" + std::to_string(level + 3);
    const auto head = [&](const std::string& name, std::int64_t results) {
      TensorId x = levels[level];
      for (int i = 0; i < 4; ++i) {
        const std::string layer = name + "." + std::to_string(i);
        x = layers.relu(layer + place + ".relu", detector.shared_conv(layer + place, layer, x, 256));
      }
      return detector.shared_conv(name + place, name + ".result", x, results);
    };
    detector.add("head" + place, head("classification", kAnchors * values.at("classes")), head("regression", kAnchors * kCorners),
                 kAnchors);
  }
  return std::move(detector).finish();
}

Graph proposals(const ZooValues& values) {
  constexpr std::int64_t kAnchors = 3, kKinds = 2;
  Detector detector(kKinds);
  Layers& layers = detector.layers();
  auto levels = pyramid(layers, resnet_stages(detector.net(), kResNet50, layers.image(values.at("batch"), 3, values.at("image"))));
  levels.push_back(layers.max_pool("fpn.pool", levels.back(), {1, 2, 0}));
  for (std::size_t level = 0; level < levels.size(); ++level) {
    const std::string place = ".p" + std::to_string(level + 2);
    const TensorId x = layers.relu("rpn" + place + ".relu", detector.shared_conv("rpn" + place, "rpn.conv", levels[level], 256));
    detector.add("rpn" + place, detector.shared_conv("rpn.objects" + place, "rpn.objects", x, kAnchors * kKinds),
                 detector.shared_conv("rpn.boxes" + place, "rpn.boxes", x, kAnchors * kCorners), kAnchors);
  }
  return std::move(detector).finish();
}

constexpr ZooRow kDetectionRows[] = {
    {"ssd300_resnet34", "SSD (Liu et al. 2016) on ResNet-34", kSsd, ssd<kResNet34>},
    {"ssd300_resnet50", "SSD (Liu et al. 2016) on ResNet-50", kSsd, ssd<kResNet50>},
    {"retinanet_resnet50", "RetinaNet (Lin et al. 2017) on ResNet-50", kRetina, retinanet<kResNet50>},
    {"retinanet_resnext50", "RetinaNet (Lin et al. 2017) on ResNeXt-50, as in MLPerf Training (264 classes there)", kRetina,
     retinanet<kResNeXt50>},
    {"maskrcnn_trunk", "Trunk and region proposals of Mask R-CNN (He et al. 2017) on ResNet-50, without its heads", kProposals, proposals},
};

}  // namespace

std::span<const ZooRow> detectors() { return kDetectionRows; }

}  // namespace rehearsal::graph::zoo
