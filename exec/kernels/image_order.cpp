#include "exec/kernels/image_order.hpp"

#include <algorithm>

namespace rehearsal::exec {

using plan::Format;

graph::Shape in_memory_order(graph::Shape shape, Format format) {
  if (format == Format::ChannelsLast) std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  return shape;
}

std::size_t in_memory_order(std::size_t dimension, std::size_t rank, Format format) {
  if (format != Format::ChannelsLast || dimension == 0) return dimension;
  return dimension == 1 ? rank - 1 : dimension - 1;
}

graph::Shape padded_to(std::size_t rank, const graph::Shape& shape) {
  graph::Shape padded(rank - std::min(rank, shape.size()), 1);
  padded.insert(padded.end(), shape.begin(), shape.end());
  return padded;
}

bool is_order_free(const graph::Shape& shape, std::size_t rank) {
  const auto padded = padded_to(rank, shape);
  return padded[1] == 1 || std::all_of(padded.begin() + 2, padded.end(), [](std::int64_t size) { return size == 1; });
}

bool follow_operand(const plan::LocalNode& node, std::vector<Format>& inputs, std::vector<Format>& outputs) {
  const auto& shape = node.inputs[0]->shape;
  if (!is_image(shape)) return true;
  const auto like = [&](const std::optional<graph::TensorType>& type) { return type && type->shape == shape; };
  bool any = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) any = any || (like(node.inputs[i]) && node.input_formats[i] == Format::ChannelsLast);
  if (!any) return true;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (like(node.inputs[i])) inputs[i] = Format::ChannelsLast;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (like(node.outputs[i])) outputs[i] = Format::ChannelsLast;
  return true;
}

bool follow_result(const plan::LocalNode& node, std::vector<Format>& inputs, std::vector<Format>& outputs) {
  const auto& full = node.outputs[0]->shape;
  if (!is_image(full)) return true;
  bool any = false, possible = true;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool same = node.inputs[i]->shape == full;
    any = any || (same && node.input_formats[i] == Format::ChannelsLast);
    possible = possible && (same || is_order_free(node.inputs[i]->shape, full.size()));
  }
  if (!any || !possible) return true;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (node.inputs[i]->shape == full) inputs[i] = Format::ChannelsLast;
  outputs[0] = Format::ChannelsLast;
  return true;
}

bool follow_any(const plan::LocalNode& node, std::vector<Format>& inputs, std::vector<Format>& outputs) {
  const bool any = std::find(node.input_formats.begin(), node.input_formats.end(), Format::ChannelsLast) != node.input_formats.end();
  if (!any || !is_image(node.inputs[0]->shape)) return true;
  std::fill(inputs.begin(), inputs.end(), Format::ChannelsLast);
  std::fill(outputs.begin(), outputs.end(), Format::ChannelsLast);
  return true;
}

bool images_of_convolution(const plan::LocalNode& node, std::vector<Format>& inputs, std::vector<Format>& outputs) {
  if (!is_image(node.inputs[0]->shape)) return false;
  const bool weight_result = node.schema.name == "ConvGradWeight";
  inputs[0] = Format::ChannelsLast;
  (weight_result ? inputs[1] : outputs[0]) = Format::ChannelsLast;
  return true;
}

}  // namespace rehearsal::exec
