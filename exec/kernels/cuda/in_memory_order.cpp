#include "exec/kernels/cuda/in_memory_order.hpp"

#include <algorithm>

#include "graph/ops/axes.hpp"

namespace rehearsal::exec::cuda {
namespace {

using plan::Format;

/// Dimensions of the images among these; 0: there are none.
std::size_t rank_of_images(std::span<const std::optional<graph::TensorType>> types, std::span<const Format> formats) {
  for (std::size_t i = 0; i < types.size(); ++i)
    if (types[i] && formats[i] == Format::ChannelsLast) return types[i]->shape.size();
  return 0;
}

}  // namespace

RequestInMemoryOrder::RequestInMemoryOrder(const KernelRequest& given)
    : given_(given),
      inputs_(given.inputs.begin(), given.inputs.end()),
      outputs_(given.outputs.begin(), given.outputs.end()),
      input_formats_(given.input_formats.begin(), given.input_formats.end()),
      output_formats_(given.output_formats.begin(), given.output_formats.end()),
      attributes_(given.attributes) {
  const auto rank = std::max(rank_of_images(inputs_, input_formats_), rank_of_images(outputs_, output_formats_));
  if (rank == 0) return;
  const auto plain = [](std::optional<graph::TensorType>& type, Format& format) {
    if (format == Format::ChannelsLast) type->shape = in_memory_order(type->shape, format), format = Format::Plain;
  };
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    // Beside images, what lies alike in both orders, as something that is broadcast to them: a number, or one for each channel.
    const bool beside = inputs_[i] && input_formats_[i] == Format::Plain && inputs_[i]->shape.size() <= rank;
    if (beside && is_order_free(inputs_[i]->shape, rank))
      inputs_[i]->shape = in_memory_order(padded_to(rank, inputs_[i]->shape), Format::ChannelsLast);
    plain(inputs_[i], input_formats_[i]);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) plain(outputs_[i], output_formats_[i]);
  const auto moved = [&](std::int64_t dimension) {
    const auto size = static_cast<std::int64_t>(rank);
    return static_cast<std::int64_t>(
        in_memory_order(static_cast<std::size_t>(dimension < 0 ? dimension + size : dimension), rank, Format::ChannelsLast));
  };
  if (attributes_.has("axis")) attributes_.set("axis", moved(attributes_.integer("axis", 0)));
  if (!attributes_.has("axes")) return;
  auto axes = attributes_.integers("axes");
  for (auto& axis : axes) axis = moved(axis);
  std::sort(axes.begin(), axes.end());
  attributes_.set("axes", axes);
}

KernelRequest RequestInMemoryOrder::request() const {
  return {given_.schema, attributes_, inputs_, outputs_, input_formats_, output_formats_, given_.threads, given_.device};
}

graph::Shape channels_first(const graph::Shape& in_memory) {
  graph::Shape shape = in_memory;
  std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  return shape;
}

bool has_channels_last(const KernelRequest& request) {
  const auto has = [](std::span<const Format> formats) {
    return std::find(formats.begin(), formats.end(), Format::ChannelsLast) != formats.end();
  };
  return has(request.input_formats) || has(request.output_formats);
}

bool only_channels_last(const plan::LocalNode& node, std::vector<Format>& inputs, std::vector<Format>& outputs) {
  follow_operand(node, inputs, outputs);
  return std::find(inputs.begin(), inputs.end(), Format::ChannelsLast) != inputs.end();
}

bool channels_last_without_pixels(const plan::LocalNode& node, std::vector<Format>& inputs, std::vector<Format>&) {
  if (node.input_formats[0] != Format::ChannelsLast) return true;
  const auto reduced = graph::reduced_dimensions(node.view());
  if (std::all_of(reduced.begin() + 2, reduced.end(), [](bool r) { return r; })) inputs[0] = Format::ChannelsLast;
  return true;
}

}  // namespace rehearsal::exec::cuda
