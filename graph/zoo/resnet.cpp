// He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", CVPR 2016, table 1, and its successors: "Identity Mappings in Deep
// Residual Networks", ECCV 2016 (v2); Xie et al., "Aggregated Residual Transformations", CVPR 2017 (ResNeXt); Zagoruyko, Komodakis, "Wide
// Residual Networks", BMVC 2016; Hu, Shen, Sun, "Squeeze-and-Excitation Networks", CVPR 2018. Parameters have torchvision's names.

#include "graph/zoo/resnet.hpp"

namespace rehearsal::graph::zoo {
namespace {

class ResNetBuilder {
 public:
  ResNetBuilder(ImageNetwork& net, const ResNetArchitecture& architecture) : architecture_(architecture), net_(net) {}

  std::vector<TensorId> stages(TensorId image, std::size_t count) {
    TensorId x = conv_norm("conv1", "bn1", image, 64, FilterWindow::of({7, 2, 3}));
    x = layers().max_pool("maxpool", layers().relu("relu", x), {3, 2, 1});
    std::vector<TensorId> results;
    for (std::size_t stage = 0; stage < count; ++stage) {
      for (int b = 0; b < architecture_.blocks[stage]; ++b) {
        const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(b);
        x = block(name, x, std::int64_t{64} << stage, b == 0 ? architecture_.strides[stage] : 1);
      }
      results.push_back(x);
    }
    return results;
  }

 private:
  Layers& layers() { return net_.layers(); }

  TensorId conv_norm(const std::string& conv, const std::string& norm, TensorId x, std::int64_t channels, const FilterWindow& kernel) {
    return layers().batch_norm(norm, layers().conv(conv, x, channels, kernel, false));
  }

  /// "x.conv2" and "x.bn2".
  TensorId step(const std::string& name, int number, TensorId x, std::int64_t channels, const FilterWindow& kernel) {
    const std::string n = std::to_string(number);
    return conv_norm(name + ".conv" + n, name + ".bn" + n, x, channels, kernel);
  }

  TensorId residual(const std::string& name, TensorId x, std::int64_t channels, std::int64_t stride) {
    if (!architecture_.bottleneck) {
      const TensorId y = layers().relu(name + ".relu1", step(name, 1, x, channels, FilterWindow::of({3, stride, 1})));
      return step(name, 2, y, channels, FilterWindow::of({3, 1, 1}));
    }
    const std::int64_t width = channels * architecture_.group_width * architecture_.groups / 64;
    const std::int64_t first = architecture_.early_stride ? stride : 1, second = architecture_.early_stride ? 1 : stride;
    TensorId y = layers().relu(name + ".relu1", step(name, 1, x, width, FilterWindow::of({1, first, 0})));
    y = layers().relu(name + ".relu2", step(name, 2, y, width, FilterWindow::of({3, second, 1}, architecture_.groups)));
    y = step(name, 3, y, 4 * channels, FilterWindow::of({1, 1, 0}));
    return architecture_.squeezed ? net_.squeezed(name + ".se", y, {4 * channels / 16}) : y;
  }

  TensorId block(const std::string& name, TensorId x, std::int64_t channels, std::int64_t stride) {
    const TensorId y = residual(name, x, channels, stride);
    const std::int64_t result = layers().shape(y)[1];
    const bool projected = stride != 1 || layers().shape(x)[1] != result;
    const TensorId shortcut =
        projected ? conv_norm(name + ".downsample.0", name + ".downsample.1", x, result, FilterWindow::of({1, stride, 0})) : x;
    return layers().relu(name + ".relu", layers().add(name + ".add", y, shortcut));
  }

  const ResNetArchitecture& architecture_;
  ImageNetwork& net_;
};

/// v2: normalization and activation stand before the convolutions, and one more of each before the classifier.
class PreactivatedNetwork {
 public:
  Graph build(const ResNetArchitecture& architecture, const ZooValues& values) && {
    TensorId x = layers_.image(values.at("batch"), 3, values.at("image"));
    x = layers_.max_pool("maxpool", layers_.conv("conv1", x, 64, {7, 2, 3}, false), {3, 2, 1});
    for (std::size_t stage = 0; stage < 4; ++stage) {
      for (int b = 0; b < architecture.blocks[stage]; ++b) {
        const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(b);
        x = block(name, x, std::int64_t{64} << stage, stage > 0 && b == 0 ? 2 : 1);
      }
    }
    x = layers_.global_average("avgpool", normed("bn", x));
    return std::move(layers_).finish(layers_.linear("fc", x, values.at("classes")), "logits");
  }

 private:
  TensorId normed(const std::string& name, TensorId x) { return layers_.relu(name + ".relu", layers_.batch_norm(name, x)); }

  TensorId block(const std::string& name, TensorId x, std::int64_t channels, std::int64_t stride) {
    const TensorId active = normed(name + ".bn1", x);
    TensorId y = layers_.conv(name + ".conv1", active, channels, {1, 1, 0}, false);
    y = layers_.conv(name + ".conv2", normed(name + ".bn2", y), channels, {3, stride, 1}, false);
    y = layers_.conv(name + ".conv3", normed(name + ".bn3", y), 4 * channels, {1, 1, 0}, false);
    const bool projected = stride != 1 || layers_.shape(x)[1] != 4 * channels;
    const TensorId shortcut = projected ? layers_.conv(name + ".downsample", active, 4 * channels, {1, stride, 0}, false) : x;
    return layers_.add(name + ".add", y, shortcut);
  }

  Layers layers_;
};

constexpr ResNetArchitecture k18{{2, 2, 2, 2}, false}, k101{{3, 4, 23, 3}}, k152{{3, 8, 36, 3}};
constexpr ResNetArchitecture kNext101{.blocks = {3, 4, 23, 3}, .groups = 32, .group_width = 8},
    kNext101Narrow{.blocks = {3, 4, 23, 3}, .groups = 32, .group_width = 4}, kWide50{.blocks = {3, 4, 6, 3}, .group_width = 128},
    kWide101{.blocks = {3, 4, 23, 3}, .group_width = 128}, kSe50{.blocks = {3, 4, 6, 3}, .squeezed = true},
    kSeNext101{.blocks = {3, 4, 23, 3}, .groups = 32, .group_width = 4, .squeezed = true},
    k50Early{.blocks = {3, 4, 6, 3}, .early_stride = true};

template <const ResNetArchitecture& kArchitecture>
Graph resnet(const ZooValues& values) {
  ImageNetwork net;
  const TensorId image = net.layers().image(values.at("batch"), 3, values.at("image"));
  const TensorId x = resnet_stages(net, kArchitecture, image).back();
  return std::move(net).classified(x, "fc", values.at("classes"));
}
template <const ResNetArchitecture& kArchitecture>
Graph preactivated(const ZooValues& values) {
  return PreactivatedNetwork().build(kArchitecture, values);
}

constexpr auto kResnetParameters = image_parameters(224, 32);
constexpr ZooRow kResnetRows[] = {
    {"resnet18", "ResNet-18 (He et al. 2016)", kResnetParameters, resnet<k18>},
    {"resnet34", "ResNet-34 (He et al. 2016)", kResnetParameters, resnet<kResNet34>},
    {"resnet50", "ResNet-50 v1.5 (He et al. 2016, strides as in torchvision)", kResnetParameters, resnet<kResNet50>},
    {"resnet101", "ResNet-101 v1.5 (He et al. 2016, strides as in torchvision)", kResnetParameters, resnet<k101>},
    {"resnet152", "ResNet-152 v1.5 (He et al. 2016, strides as in torchvision)", kResnetParameters, resnet<k152>},
    {"resnet50_v1", "ResNet-50 v1 (He et al. 2016, strides as in the paper)", kResnetParameters, resnet<k50Early>},
    {"resnet50_v2", "ResNet-50 v2 (He et al., ECCV 2016)", kResnetParameters, preactivated<kResNet50>},
    {"resnet101_v2", "ResNet-101 v2 (He et al., ECCV 2016)", kResnetParameters, preactivated<k101>},
    {"resnet152_v2", "ResNet-152 v2 (He et al., ECCV 2016)", kResnetParameters, preactivated<k152>},
    {"resnext50_32x4d", "ResNeXt-50 (Xie et al. 2017)", kResnetParameters, resnet<kResNeXt50>},
    {"resnext101_32x4d", "ResNeXt-101, groups of 4 (Xie et al. 2017)", kResnetParameters, resnet<kNext101Narrow>},
    {"resnext101_32x8d", "ResNeXt-101, groups of 8 (Xie et al. 2017)", kResnetParameters, resnet<kNext101>},
    {"wide_resnet50_2", "Wide ResNet-50-2 (Zagoruyko, Komodakis 2016)", kResnetParameters, resnet<kWide50>},
    {"wide_resnet101_2", "Wide ResNet-101-2 (Zagoruyko, Komodakis 2016)", kResnetParameters, resnet<kWide101>},
    {"seresnet50", "SE-ResNet-50 (Hu et al. 2018)", kResnetParameters, resnet<kSe50>},
    {"seresnext101_32x4d", "SE-ResNeXt-101 (Hu et al. 2018)", kResnetParameters, resnet<kSeNext101>},
};

}  // namespace

std::vector<TensorId> resnet_stages(ImageNetwork& net, const ResNetArchitecture& architecture, TensorId image, std::size_t stages) {
  return ResNetBuilder(net, architecture).stages(image, stages);
}

std::span<const ZooRow> resnets() { return kResnetRows; }

}  // namespace rehearsal::graph::zoo
