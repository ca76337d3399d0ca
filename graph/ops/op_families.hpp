#pragma once
// The families of the operator table: a file beside this one each, which contributes its rows.

#include <span>

#include "graph/op_schema.hpp"

namespace rehearsal::graph {

using OpFamily = std::span<const OpSchema>();
OpFamily convolution_ops, pooling_ops, normalization_ops, layer_normalization_ops, group_normalization_ops, resize_ops, dropout_ops,
    elementwise_ops, matmul_ops, delta_rule_ops, sinkhorn_ops, reduction_ops, movement_ops, rotation_ops, gather_ops, scatter_ops,
    selection_ops, softmax_ops, blockwise_softmax_ops, attention_ops, loss_ops, optimizer_ops, decomposition_ops, outer_product_ops;

/// In the order of op_table().
inline constexpr OpFamily* kOpFamilies[] = {convolution_ops,
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
