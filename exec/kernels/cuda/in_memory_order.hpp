#pragma once
// Kernels that take channels-last images as plain tensors, of the shape in which their elements lie: [n, spatial..., c].

#include <memory>
#include <string>
#include <vector>

#include "exec/kernels/image_order.hpp"
#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec::cuda {

/// A request for the same work on plain tensors: shapes, and the attributes that number dimensions, in the order of memory.
class RequestInMemoryOrder {
 public:
  explicit RequestInMemoryOrder(const KernelRequest& given);
  [[nodiscard]] KernelRequest request() const;

 private:
  KernelRequest given_;
  std::vector<std::optional<graph::TensorType>> inputs_, outputs_;
  std::vector<plan::Format> input_formats_, output_formats_;
  graph::Attributes attributes_;
};

/// The shape [n, c, spatial...] of an image that lies in this order of memory.
[[nodiscard]] graph::Shape channels_first(const graph::Shape& in_memory);

[[nodiscard]] bool has_channels_last(const KernelRequest&);

/// What Make makes of plain tensors. Rows of plain and of channels-last images may be one.
template <auto Make>
std::unique_ptr<Kernel> in_order_of_memory(const KernelRequest& request, std::string& reason) {
  return Make(RequestInMemoryOrder(request).request(), reason);
}

/// The same of kernels that take nothing but channels-last images.
template <auto Make>
std::unique_ptr<Kernel> of_channels_last(const KernelRequest& request, std::string& reason) {
  if (has_channels_last(request)) return in_order_of_memory<Make>(request, reason);
  reason = "only channels-last images";
  return nullptr;
}
/// As follow_operand(), and false where nothing is channels-last.
bool only_channels_last(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs);

/// Of a reduction: a channels-last image as it is where all its pixels go.
bool channels_last_without_pixels(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs);

}  // namespace rehearsal::exec::cuda
