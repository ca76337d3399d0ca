#pragma once
// The families of the operator table: a file beside this one each, which contributes its rows.

#include <span>

#include "graph/op_schema.hpp"

namespace rehearsal::graph {

[[nodiscard]] std::span<const OpSchema> convolution_ops();
[[nodiscard]] std::span<const OpSchema> pooling_ops();
[[nodiscard]] std::span<const OpSchema> normalization_ops();
[[nodiscard]] std::span<const OpSchema> layer_normalization_ops();
[[nodiscard]] std::span<const OpSchema> group_normalization_ops();
[[nodiscard]] std::span<const OpSchema> resize_ops();
[[nodiscard]] std::span<const OpSchema> dropout_ops();
[[nodiscard]] std::span<const OpSchema> elementwise_ops();
[[nodiscard]] std::span<const OpSchema> matmul_ops();
[[nodiscard]] std::span<const OpSchema> delta_rule_ops();
[[nodiscard]] std::span<const OpSchema> sinkhorn_ops();
[[nodiscard]] std::span<const OpSchema> decomposition_ops();
[[nodiscard]] std::span<const OpSchema> outer_product_ops();
[[nodiscard]] std::span<const OpSchema> reduction_ops();
[[nodiscard]] std::span<const OpSchema> movement_ops();
[[nodiscard]] std::span<const OpSchema> rotation_ops();
[[nodiscard]] std::span<const OpSchema> gather_ops();
[[nodiscard]] std::span<const OpSchema> scatter_ops();
[[nodiscard]] std::span<const OpSchema> selection_ops();
[[nodiscard]] std::span<const OpSchema> softmax_ops();
[[nodiscard]] std::span<const OpSchema> blockwise_softmax_ops();
[[nodiscard]] std::span<const OpSchema> attention_ops();
[[nodiscard]] std::span<const OpSchema> loss_ops();
[[nodiscard]] std::span<const OpSchema> optimizer_ops();

/// In the order of op_table().
inline constexpr std::span<const OpSchema> (*kOpFamilies[])() = {convolution_ops,
                                                                 pooling_ops,
                                                                 normalization_ops,
                                                                 layer_normalization_ops,
                                                                 group_normalization_ops,
                                                                 resize_ops,
                                                                 dropout_ops,
                                                                 elementwise_ops,
                                                                 matmul_ops,
                                                                 delta_rule_ops,
                                                                 sinkhorn_ops,
                                                                 reduction_ops,
                                                                 movement_ops,
                                                                 rotation_ops,
                                                                 gather_ops,
                                                                 scatter_ops,
                                                                 selection_ops,
                                                                 softmax_ops,
                                                                 blockwise_softmax_ops,
                                                                 attention_ops,
                                                                 loss_ops,
                                                                 optimizer_ops,
                                                                 decomposition_ops,
                                                                 outer_product_ops};

}  // namespace rehearsal::graph
