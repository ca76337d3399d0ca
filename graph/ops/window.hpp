#pragma once
// Sliding windows of convolutions and pools: what their rows and their kernels share.

#include <cstdint>
#include <vector>

#include "graph/op_schema.hpp"

namespace rehearsal::graph {

/// One entry per spatial axis. Padding is explicit on both sides, so that a block of a split axis can have its own.
struct Window {
  std::vector<std::int64_t> kernel, strides, dilations, low, high;

  [[nodiscard]] std::size_t rank() const { return kernel.size(); }
  /// Positions from the first to the last tap of axis d.
  [[nodiscard]] std::int64_t span(std::size_t d) const { return (kernel[d] - 1) * dilations[d] + 1; }
  /// High padding with which `size` elements of axis d have exactly so many windows: a block of a split image may have fewer than fit.
  [[nodiscard]] std::int64_t high_for(std::size_t d, std::int64_t size, std::int64_t windows) const;
};

/// Reads "strides", "dilations" (default 1) and "pads" (default 0; all low sides, then all high sides).
/// Throws BadInput naming the attribute when it has the wrong length, or a size, stride or dilation below 1.
[[nodiscard]] Window window_of(const Attributes&, std::vector<std::int64_t> kernel);

/// Dimensions 2 and later.
[[nodiscard]] std::vector<std::int64_t> spatial_of(const Shape&);

/// floor((size + low + high - span) / stride) + 1 per axis. With `ceil_mode` rounded up, except that a window must start
/// inside the tensor or its low padding (as PyTorch and ONNX 22 do). Throws BadInput when the window does not fit.
[[nodiscard]] std::vector<std::int64_t> windows_in(const std::vector<std::int64_t>& spatial, const Window&, bool ceil_mode = false);

/// (size - 1) stride + span + output_padding - low - high per axis: the sizes of a transposed convolution.
[[nodiscard]] std::vector<std::int64_t> windows_from(const std::vector<std::int64_t>& spatial, const Window&,
                                                     const std::vector<std::int64_t>& output_padding);

/// Dimensions (batch, channels, spatial...).
[[nodiscard]] Shape image_shape(std::int64_t batch, std::int64_t channels, const std::vector<std::int64_t>& spatial);

/// A dimension of two nested iteration dimensions, outer first; a factor of size 1 is left out.
[[nodiscard]] DimLabels nested(LabelFactor outer, LabelFactor inner);

/// Labels `first`, `first` + 1, ... on dimensions 2 and later of `labels`.
void label_spatial(TensorLabels& labels, const Shape& shape, int first);

}  // namespace rehearsal::graph
