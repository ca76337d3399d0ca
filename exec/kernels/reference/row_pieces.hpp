#pragma once
// Tensors of one shape, walked side by side in contiguous pieces: what element-wise kernels share.

#include <algorithm>
#include <array>
#include <cstdint>

#include "exec/kernels/reference/reference.hpp"
#include "graph/ops/strided.hpp"

namespace rehearsal::exec::reference {

/// Calls body(offsets, steps, count) for pieces of rows of `views`, on several threads where each has at least `grain` elements.
template <std::size_t N, class F>
void walk_pieces(int threads, const std::array<graph::StridedView, N>& views, std::int64_t grain, const F& body) {
  const graph::RowWalk<N> walk(views);
  const auto steps = walk.steps();
  if (walk.rows() != 1) {
    parallel_ranges(threads, walk.rows(), grain / std::max<std::int64_t>(1, walk.length()) + 1, [&](std::int64_t first, std::int64_t last) {
      walk.each(first, last, [&](std::int64_t, const auto& at) { body(at, steps, walk.length()); });
    });
    return;
  }
  parallel_ranges(threads, walk.length(), grain, [&](std::int64_t first, std::int64_t last) {
    std::array<std::int64_t, N> at;
    for (std::size_t v = 0; v < N; ++v) at[v] = views[v].offset + first * steps[v];
    body(at, steps, last - first);
  });
}

}  // namespace rehearsal::exec::reference
