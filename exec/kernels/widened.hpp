#pragma once
// 16-bit types by f32 kernels: operands are widened into scratch memory, results rounded from it. What is stored, saved for the backward
// pass and sent has 16 bits; sums within one kernel have the accuracy of f32.

#include <functional>
#include <memory>

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec {

/// A node with f32 in place of every 16-bit floating-point type, also where attributes name one.
class WidenedNode {
 public:
  explicit WidenedNode(const plan::LocalNode& node);
  explicit WidenedNode(const KernelRequest& request);

  /// True when there is anything to widen.
  [[nodiscard]] static bool applies(std::span<const std::optional<graph::TensorType>> inputs,
                                    std::span<const std::optional<graph::TensorType>> outputs);
  [[nodiscard]] const graph::Attributes& attributes() const { return attributes_; }
  [[nodiscard]] std::span<const std::optional<graph::TensorType>> inputs() const { return inputs_; }
  [[nodiscard]] std::span<const std::optional<graph::TensorType>> outputs() const { return outputs_; }
  /// Scratch memory for the widened tensors.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  friend class WidenedKernel;
  void widen(std::span<const std::optional<graph::TensorType>> from, std::vector<std::optional<graph::TensorType>>& to,
             std::vector<std::int64_t>& offsets);

  graph::Attributes attributes_;
  std::vector<std::optional<graph::TensorType>> inputs_, outputs_;
  std::vector<std::int64_t> input_offsets_, output_offsets_;  ///< into the scratch memory; -1: passed on as it is
  std::int64_t bytes_ = 0;
};

/// What runs `request` by the kernel that `make` returns for the widened one.
[[nodiscard]] std::shared_ptr<Kernel> make_widened(const KernelRequest& request,
                                                   const std::function<std::shared_ptr<Kernel>(const KernelRequest&)>& make);

}  // namespace rehearsal::exec
