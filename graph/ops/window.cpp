#include "graph/ops/window.hpp"

#include <string>

#include "base/error.hpp"
#include "graph/ops/labels.hpp"

namespace rehearsal::graph {
namespace {

std::vector<std::int64_t> per_axis(const Attributes& attributes, const char* key, std::size_t count, std::int64_t otherwise) {
  std::vector<std::int64_t> values = attributes.integers(key);
  if (values.empty()) values.assign(count, otherwise);
  if (values.size() != count) {
    throw BadInput(std::string("attribute '") + key + "' has " + std::to_string(values.size()) + " entries, the operands need " +
                   std::to_string(count));
  }
  return values;
}

void require_positive_values(const std::vector<std::int64_t>& values, const char* what) {
  for (const std::int64_t v : values) {
    if (v < 1) throw BadInput(std::string(what) + " has an entry of " + std::to_string(v) + ", each must be at least 1");
  }
}

}  // namespace

std::int64_t Window::high_for(std::size_t d, std::int64_t size, std::int64_t windows) const {
  const std::int64_t room = size + low[d] + high[d] - span(d);
  if (room >= 0 && room / strides[d] + 1 == windows) return high[d];
  return (windows - 1) * strides[d] + span(d) - size - low[d];
}

Window window_of(const Attributes& attributes, std::vector<std::int64_t> kernel) {
  const std::size_t rank = kernel.size();
  const std::vector<std::int64_t> pads = per_axis(attributes, "pads", 2 * rank, 0);
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(rank);
  Window window{std::move(kernel),
                per_axis(attributes, "strides", rank, 1),
                per_axis(attributes, "dilations", rank, 1),
                {pads.begin(), middle},
                {middle, pads.end()}};
  require_positive_values(window.kernel, "the kernel's shape");
  require_positive_values(window.strides, "attribute 'strides'");
  require_positive_values(window.dilations, "attribute 'dilations'");
  return window;
}

std::vector<std::int64_t> spatial_of(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

std::vector<std::int64_t> windows_in(const std::vector<std::int64_t>& spatial, const Window& window, bool ceil_mode) {
  std::vector<std::int64_t> sizes;
  for (std::size_t d = 0; d < window.rank(); ++d) {
    const std::int64_t stride = window.strides[d], room = spatial[d] + window.low[d] + window.high[d] - window.span(d);
    if (room < 0) {
      throw BadInput("the window spans " + std::to_string(window.span(d)) + " on spatial axis " + std::to_string(d) +
                     ", but the padded operand has only " + std::to_string(room + window.span(d)));
    }
    std::int64_t size = (ceil_mode ? room + stride - 1 : room) / stride + 1;
    if (ceil_mode && (size - 1) * stride >= spatial[d] + window.low[d]) --size;
    sizes.push_back(size);
  }
  return sizes;
}

std::vector<std::int64_t> windows_from(const std::vector<std::int64_t>& spatial, const Window& window,
                                       const std::vector<std::int64_t>& output_padding) {
  std::vector<std::int64_t> sizes;
  for (std::size_t d = 0; d < window.rank(); ++d) {
    const std::int64_t size = (spatial[d] - 1) * window.strides[d] + window.span(d) + output_padding[d] - window.low[d] - window.high[d];
    if (size < 1)
      throw BadInput("'pads' leave nothing of spatial axis " + std::to_string(d) + ": its size would be " + std::to_string(size));
    sizes.push_back(size);
  }
  return sizes;
}

Shape image_shape(std::int64_t batch, std::int64_t channels, const std::vector<std::int64_t>& spatial) {
  Shape shape{batch, channels};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  return shape;
}

DimLabels nested(LabelFactor outer, LabelFactor inner) {
  DimLabels labels;
  for (const LabelFactor factor : {outer, inner}) {
    if (factor.size > 1) labels.push_back(factor);
  }
  return labels;
}

void label_spatial(TensorLabels& labels, const Shape& shape, int first) {
  for (std::size_t d = 2; d < shape.size(); ++d) labels[d] = whole(first + static_cast<int>(d) - 2, shape[d]);
}

}  // namespace rehearsal::graph
