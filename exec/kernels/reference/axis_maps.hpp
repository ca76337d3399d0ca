#pragma once
// The sparse maps of Resize and Pad, one per trailing axis: those of the unsplit tensor, shifted to the block at hand.

#include <vector>

#include "exec/kernels/reference/reference.hpp"
#include "graph/ops/interpolation.hpp"

namespace rehearsal::exec::reference {

/// Taps of every local position of one axis of the larger side of the map (the result of Resize or Pad), in local operand positions.
struct AxisMap {
  std::int64_t in = 0, out = 0;
  std::vector<std::vector<graph::Tap>> taps;
};

/// `transposed`: of the gradient, whose operand is the result's side. Throws InternalError when a block has not the operand rows that it
/// needs.
[[nodiscard]] std::vector<AxisMap> resize_maps(const Call&, bool transposed);
[[nodiscard]] std::vector<AxisMap> pad_maps(const Call&, bool transposed);

}  // namespace rehearsal::exec::reference
