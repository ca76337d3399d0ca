#pragma once
// The families of the operator table: each file beside this one contributes its rows. op_table() concatenates them in this order.

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

}  // namespace rehearsal::graph
