#pragma once
// Sliding windows under a split spatial axis: which rows of each operand a block of the result needs, and the padding that is left of the
// window's own at the borders of the block.

#include "graph/op_schema.hpp"
#include "plan/block.hpp"

namespace rehearsal::plan {

/// A node whose spatial axis `axis` (0: dimension 2) is cut into blocks. Types are those of the unsplit tensors.
struct WindowedNode {
  const graph::OpSchema& schema;
  graph::NodeView view;
  std::size_t axis = 0;
};

/// The tensor whose blocks the ranks work on: result 0, or (where the result is a sum over positions) an operand.
struct WindowAnchor {
  bool result = true;
  std::size_t operand = 0;
};
[[nodiscard]] WindowAnchor anchor_of(const WindowedNode&);

/// Rows of an operand that a block of the anchor needs, within the tensor.
[[nodiscard]] Range rows_needed(const WindowedNode&, std::size_t operand, Range block);

/// Identifies what rows_needed() answers: equal numbers need equal rows of a tensor. 0: the rows of the block itself.
[[nodiscard]] std::int32_t halo_number(const WindowedNode&, std::size_t operand);

/// The attributes with which the kernel works on a block as if it were the whole.
[[nodiscard]] graph::Attributes local_attributes(const WindowedNode&, Range block, graph::Attributes);

/// `now` with the entries of `alone` that belong to one spatial axis.
[[nodiscard]] graph::Attributes merged_windows(graph::Attributes now, const graph::Attributes& alone, std::size_t axis);

/// Can the axis be cut into so many blocks?
[[nodiscard]] bool can_cut(const WindowedNode&, std::int64_t blocks);

}  // namespace rehearsal::plan
