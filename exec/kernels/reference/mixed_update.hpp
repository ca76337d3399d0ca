#pragma once
// Updates of parameters in f32 whose passes compute in 16 bits: the gradient comes as the passes make it, and the last result is the
// parameter as they read it (graph::kRoundedTo). For the kernels of all backends.

#include <algorithm>
#include <type_traits>

#include "exec/kernels/narrow.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "graph/master_weights.hpp"

namespace rehearsal::exec::reference {

[[nodiscard]] inline bool rounds_parameter(const Call& call) { return call.attributes().has(graph::kRoundedTo); }

/// Calls update(first, last, gradients) on blocks of the parameter, in parallel; gradients[0] is that of element `first`, as T. What a
/// block makes of result 0 is rounded while it is still in the cache.
template <class T, class Update>
void each_block(const Call& call, std::int64_t grain, Update&& update) {
  constexpr std::int64_t kBlock = 1024;
  const auto all = graph::element_count(call.in_shape(0));
  const DType type = call.problem.inputs[1]->dtype;
  if (!std::is_same_v<T, float> || (!is_narrow(type) && !rounds_parameter(call))) {
    parallel_ranges(call.threads(), all, grain, [&](std::int64_t first, std::int64_t last) { update(first, last, call.in<T>(1) + first); });
    return;
  }
  const std::size_t last_result = call.outputs.size() - 1;
  const auto blocks = (all + kBlock - 1) / kBlock;
  parallel_items(call.threads(), blocks, std::max<std::int64_t>(1, grain / kBlock), [&](std::int64_t block) {
    const std::int64_t first = block * kBlock, last = std::min(all, first + kBlock);
    T wide[kBlock];
    if constexpr (std::is_same_v<T, float>)
      if (is_narrow(type)) widen(call.in<std::uint16_t>(1) + first, type, wide, last - first);
    update(first, last, is_narrow(type) ? wide : call.in<T>(1) + first);
    if constexpr (std::is_same_v<T, float>)
      if (rounds_parameter(call))
        narrow(call.out<T>() + first, call.problem.outputs.back()->dtype, call.out<std::uint16_t>(last_result) + first, last - first);
  });
}

}  // namespace rehearsal::exec::reference
