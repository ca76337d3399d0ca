#pragma once
// The kernels for GPUs, by family: one row per operator (exec/kernels/kernel.hpp). Their bodies run on the host, too.

#include <span>

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec::cuda {

[[nodiscard]] std::span<const KernelRow> attention_gradient_kernels();
[[nodiscard]] std::span<const KernelRow> attention_kernels();
[[nodiscard]] std::span<const KernelRow> bias_kernels();
[[nodiscard]] std::span<const KernelRow> blockwise_softmax_kernels();
[[nodiscard]] std::span<const KernelRow> channels_last_normalization_kernels();
[[nodiscard]] std::span<const KernelRow> channels_last_pooling_kernels();
[[nodiscard]] std::span<const KernelRow> determinant_kernels();
[[nodiscard]] std::span<const KernelRow> dropout_kernels();
[[nodiscard]] std::span<const KernelRow> elementwise_kernels();
[[nodiscard]] std::span<const KernelRow> gather_kernels();
[[nodiscard]] std::span<const KernelRow> layer_normalization_kernels();
[[nodiscard]] std::span<const KernelRow> loss_kernels();
[[nodiscard]] std::span<const KernelRow> movement_kernels();
[[nodiscard]] std::span<const KernelRow> normalization_kernels();
[[nodiscard]] std::span<const KernelRow> optimizer_kernels();
[[nodiscard]] std::span<const KernelRow> pooling_kernels();
[[nodiscard]] std::span<const KernelRow> reduction_kernels();
[[nodiscard]] std::span<const KernelRow> resize_kernels();
[[nodiscard]] std::span<const KernelRow> rotation_kernels();
[[nodiscard]] std::span<const KernelRow> scatter_kernels();
[[nodiscard]] std::span<const KernelRow> selection_kernels();
[[nodiscard]] std::span<const KernelRow> softmax_kernels();

/// All of them.
[[nodiscard]] std::span<const KernelRow> body_kernels();

}  // namespace rehearsal::exec::cuda
