#pragma once
// Copying what two local tensors have in common: both hold a region of the same whole tensor, row by row.

#include <cstdint>
#include <vector>

#include "graph/shape.hpp"
#include "plan/layout.hpp"

namespace rehearsal::plan {

[[nodiscard]] std::int64_t count_of(const IndexSet&);
[[nodiscard]] std::int64_t element_count(const Region&);
[[nodiscard]] Region intersection(const Region&, const Region&);
[[nodiscard]] Region whole_region(const graph::Shape&);
/// True when `inner` has nothing that `outer` lacks.
[[nodiscard]] bool contains(const Region& outer, const Region& inner);

/// A copy between two local tensors in row-major order, as nested loops over runs of consecutive elements.
class BlockCopy {
 public:
  BlockCopy() = default;
  /// Everything that both regions hold. Offsets (elements) are added to every position.
  BlockCopy(const Region& from, const Region& to, std::int64_t from_offset = 0, std::int64_t to_offset = 0);

  /// Calls copy(first element read, first element written, elements) for every run.
  template <class Copy>
  void for_each_run(const Copy& copy) const {
    if (!loops_.empty()) visit(0, from_offset_, to_offset_, copy);
  }

 private:
  struct Segment {
    std::int64_t from = 0, to = 0, count = 0;
  };
  struct Loop {
    std::vector<Segment> segments;
    std::int64_t from_stride = 1, to_stride = 1;  ///< elements per index
  };

  template <class Copy>
  void visit(std::size_t depth, std::int64_t from, std::int64_t to, const Copy& copy) const {
    const Loop& loop = loops_[depth];
    for (const Segment& s : loop.segments) {
      const std::int64_t first = from + s.from * loop.from_stride, last = to + s.to * loop.to_stride;
      if (depth + 1 == loops_.size()) {
        copy(first, last, s.count * loop.from_stride);
        continue;
      }
      for (std::int64_t i = 0; i < s.count; ++i) visit(depth + 1, first + i * loop.from_stride, last + i * loop.to_stride, copy);
    }
  }

  [[nodiscard]] static std::vector<Segment> common(const IndexSet& from, const IndexSet& to);

  std::vector<Loop> loops_;  ///< outer to inner; empty: nothing in common. Of the innermost, a run is a whole segment
  std::int64_t from_offset_ = 0, to_offset_ = 0;
};

}  // namespace rehearsal::plan
