#pragma once
// Kernels that read or write at indices (operand 1, i32 or i64; negative ones count from the end), and positions sorted by where they
// point, so that what meets in one place is added up in one order.

#include <cstdint>

#include "base/error.hpp"
#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::cuda {

struct Indices {
  const void* data;
  bool wide;
  explicit Indices(const Call& call) : data(call.inputs[1].data), wide(call.problem.inputs[1]->dtype != DType::I32) {}
  REHEARSAL_BODY std::int64_t at(std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
};

/// The block of rows that a kernel holds of a dimension of `global` rows.
struct RowBlock {
  std::int64_t first, count, global;
  Fault* fault;
  /// Row within the block, -1 when it lies in another one, or nowhere: that is raised.
  REHEARSAL_BODY std::int64_t find(std::int64_t index) const {
    if (index < -global || index >= global) {
      raise(fault, index, global);
      return -1;
    }
    const std::int64_t local = (index < 0 ? index + global : index) - first;
    return local >= 0 && local < count ? local : -1;
  }
};

/// Where an element goes, above its position: keys of one place stand together in the order of positions.
using Key = std::uint64_t;
inline constexpr std::uint32_t kNowhere = 0xFFFFFFFFU;

REHEARSAL_BODY Key key_of(std::int64_t place, std::int64_t position) {
  return (static_cast<Key>(place < 0 ? kNowhere : static_cast<std::uint32_t>(place)) << 32) | static_cast<Key>(position);
}
REHEARSAL_BODY std::uint32_t place_of(Key key) { return static_cast<std::uint32_t>(key >> 32); }
REHEARSAL_BODY std::int64_t position_of(Key key) { return static_cast<std::int64_t>(key & 0xFFFFFFFFU); }

/// Throws Refusal where keys could not tell places or positions apart.
inline void require_keys(std::int64_t places, std::int64_t positions) {
  if (places >= std::int64_t{kNowhere} || positions >= std::int64_t{kNowhere})
    throw Refusal("GPU kernels sort fewer than 2^32 indices by fewer than 2^32 places");
}

inline constexpr std::int64_t kSortedRun = 512;

/// Sorts runs of kSortedRun: a key's place is the number of smaller ones. No two are equal.
struct SortRuns {
  const Key* from;
  Key* to;
  std::int64_t count;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const std::int64_t first = i / kSortedRun * kSortedRun, end = first + kSortedRun < count ? first + kSortedRun : count;
    const Key key = from[i];
    std::int64_t smaller = 0;
    for (std::int64_t k = first; k < end; ++k) smaller += from[k] < key ? 1 : 0;
    to[first + smaller] = key;
  }
};

/// Merges neighbouring sorted runs of `width`.
struct MergeRuns {
  const Key* from;
  Key* to;
  std::int64_t count, width;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const Key key = from[i];
    const std::int64_t run = i / width, sibling = (run ^ 1) * width;
    std::int64_t low = sibling < count ? sibling : count, high = sibling + width < count ? sibling + width : count;
    const std::int64_t first = low;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (from[middle] < key)
        low = middle + 1;
      else
        high = middle;
    }
    to[(run & ~std::int64_t{1}) * width + (i - run * width) + (low - first)] = key;
  }
};

/// Sorts `count` keys; `other` has room for as many. Returns where they are then.
inline const Key* sort_keys(DeviceStream stream, Key* keys, Key* other, std::int64_t count) {
  for_each(stream, count, SortRuns{keys, other, count});
  for (std::int64_t width = kSortedRun; width < count; width *= 2) {
    std::swap(keys, other);
    for_each(stream, count, MergeRuns{keys, other, count, width});
  }
  return other;
}

[[nodiscard]] constexpr std::int64_t bytes_of_sorting(std::int64_t count) { return 2 * count * static_cast<std::int64_t>(sizeof(Key)); }

}  // namespace rehearsal::exec::cuda
