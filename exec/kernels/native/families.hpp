#pragma once
// The families of our own fast kernels. A family is one file and one line here and in exec/host/fast.cpp.

#include <span>

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec::native {

[[nodiscard]] std::span<const KernelRow> elementwise_kernels();
[[nodiscard]] std::span<const KernelRow> normalization_kernels();
[[nodiscard]] std::span<const KernelRow> layer_normalization_kernels();
[[nodiscard]] std::span<const KernelRow> softmax_kernels();
[[nodiscard]] std::span<const KernelRow> attention_kernels();
[[nodiscard]] std::span<const KernelRow> pooling_kernels();
[[nodiscard]] std::span<const KernelRow> reduction_kernels();
[[nodiscard]] std::span<const KernelRow> movement_kernels();
[[nodiscard]] std::span<const KernelRow> picked_element_kernels();
[[nodiscard]] std::span<const KernelRow> resizing_kernels();
[[nodiscard]] std::span<const KernelRow> rotation_kernels();
[[nodiscard]] std::span<const KernelRow> optimizer_kernels();
[[nodiscard]] std::span<const KernelRow> winograd_kernels();
[[nodiscard]] std::span<const KernelRow> depthwise_kernels();

}  // namespace rehearsal::exec::native
