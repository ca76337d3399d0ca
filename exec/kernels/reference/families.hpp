#pragma once
// The families of reference kernels: a file beside this one each.

#include <span>

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec::reference {

[[nodiscard]] std::span<const KernelRow> elementwise_kernels();
[[nodiscard]] std::span<const KernelRow> matmul_kernels();
[[nodiscard]] std::span<const KernelRow> delta_rule_kernels();
[[nodiscard]] std::span<const KernelRow> sinkhorn_kernels();
[[nodiscard]] std::span<const KernelRow> reduction_kernels();
[[nodiscard]] std::span<const KernelRow> movement_kernels();
[[nodiscard]] std::span<const KernelRow> rotation_kernels();
[[nodiscard]] std::span<const KernelRow> gather_kernels();
[[nodiscard]] std::span<const KernelRow> scatter_kernels();
[[nodiscard]] std::span<const KernelRow> selection_kernels();
[[nodiscard]] std::span<const KernelRow> softmax_kernels();
[[nodiscard]] std::span<const KernelRow> blockwise_softmax_kernels();
[[nodiscard]] std::span<const KernelRow> attention_kernels();
[[nodiscard]] std::span<const KernelRow> convolution_kernels();
[[nodiscard]] std::span<const KernelRow> pooling_kernels();
[[nodiscard]] std::span<const KernelRow> normalization_kernels();
[[nodiscard]] std::span<const KernelRow> layer_normalization_kernels();
[[nodiscard]] std::span<const KernelRow> resize_kernels();
[[nodiscard]] std::span<const KernelRow> dropout_kernels();
[[nodiscard]] std::span<const KernelRow> loss_kernels();
[[nodiscard]] std::span<const KernelRow> optimizer_kernels();
[[nodiscard]] std::span<const KernelRow> adaptive_optimizer_kernels();
[[nodiscard]] std::span<const KernelRow> decomposition_kernels();
[[nodiscard]] std::span<const KernelRow> outer_product_kernels();

/// In the order of reference_kernels().
inline constexpr std::span<const KernelRow> (*kFamilies[])() = {elementwise_kernels,
                                                                matmul_kernels,
                                                                delta_rule_kernels,
                                                                sinkhorn_kernels,
                                                                reduction_kernels,
                                                                movement_kernels,
                                                                rotation_kernels,
                                                                gather_kernels,
                                                                scatter_kernels,
                                                                selection_kernels,
                                                                softmax_kernels,
                                                                blockwise_softmax_kernels,
                                                                attention_kernels,
                                                                convolution_kernels,
                                                                pooling_kernels,
                                                                normalization_kernels,
                                                                layer_normalization_kernels,
                                                                resize_kernels,
                                                                dropout_kernels,
                                                                loss_kernels,
                                                                optimizer_kernels,
                                                                adaptive_optimizer_kernels,
                                                                decomposition_kernels,
                                                                outer_product_kernels};

}  // namespace rehearsal::exec::reference
