#pragma once
// The trunk of residual networks, which detectors share.

#include <array>

#include "graph/zoo/image_network.hpp"

namespace rehearsal::graph::zoo {

struct ResNetArchitecture {
  std::array<int, 4> blocks;
  bool bottleneck = true;
  std::int64_t groups = 1, group_width = 64;  ///< of the 3x3 convolutions of a bottleneck in the first stage
  bool squeezed = false;                      ///< squeeze and excitation to a sixteenth of the block's channels
  bool early_stride = false;                  ///< v1: the first 1x1 convolution of a bottleneck has the stride, else its 3x3 ("v1.5")
  std::array<std::int64_t, 4> strides = {1, 2, 2, 2};
};
inline constexpr ResNetArchitecture kResNet34{{3, 4, 6, 3}, false}, kResNet50{{3, 4, 6, 3}},
    kResNeXt50{.blocks = {3, 4, 6, 3}, .groups = 32, .group_width = 4};

/// The results of the first `stages` stages behind the stem ("layer1" …).
[[nodiscard]] std::vector<TensorId> resnet_stages(ImageNetwork&, const ResNetArchitecture&, TensorId image, std::size_t stages = 4);

}  // namespace rehearsal::graph::zoo
