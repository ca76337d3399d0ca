#pragma once
// Resize and Pad under a split image axis. Their rows are no windows of one size: which rows a block needs follows from the taps of the map
// between the unsplit axes (graph/ops/interpolation.hpp).

#include "plan/sharding/windows.hpp"

namespace rehearsal::plan {

/// Resize, Pad and their gradients.
[[nodiscard]] bool is_resized(const WindowedNode&);
/// Rows of the operand that a block of the result needs: the smallest range with all of them.
[[nodiscard]] Range resized_rows(const WindowedNode&, Range block);
/// As halo_number().
[[nodiscard]] std::int32_t resized_halo(const WindowedNode&);
/// Does every block need at least one row?
[[nodiscard]] bool can_cut_resized(const WindowedNode&, std::int64_t blocks);

}  // namespace rehearsal::plan
