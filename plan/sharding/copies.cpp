#include "plan/sharding/copies.hpp"

#include <algorithm>

namespace rehearsal::plan {
namespace {

/// Calls visit(common range, index in a, index in b): positions among the elements that each set owns.
template <class Visit>
void for_each_common(const IndexSet& a, const IndexSet& b, const Visit& visit) {
  std::size_t i = 0, j = 0;
  std::int64_t before_a = 0, before_b = 0;
  while (i < a.size() && j < b.size()) {
    const Range both{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (both.begin < both.end) visit(both, before_a + both.begin - a[i].begin, before_b + both.begin - b[j].begin);
    if (a[i].end < b[j].end) {
      before_a += a[i++].count();
    } else {
      before_b += b[j++].count();
    }
  }
}

}  // namespace

std::int64_t count_of(const IndexSet& set) {
  std::int64_t n = 0;
  for (const Range& r : set) n += r.count();
  return n;
}

std::int64_t element_count(const Region& region) {
  std::int64_t n = 1;
  for (const IndexSet& set : region) n *= count_of(set);
  return n;
}

Region intersection(const Region& a, const Region& b) {
  Region both(a.size());
  for (std::size_t d = 0; d < a.size(); ++d) {
    for_each_common(a[d], b[d], [&](Range r, std::int64_t, std::int64_t) {
      if (!both[d].empty() && both[d].back().end == r.begin) {
        both[d].back().end = r.end;
      } else {
        both[d].push_back(r);
      }
    });
  }
  return both;
}

Region whole_region(const graph::Shape& shape) {
  Region region;
  for (const std::int64_t n : shape) region.push_back({{0, n}});
  return region;
}

bool contains(const Region& outer, const Region& inner) { return element_count(intersection(outer, inner)) == element_count(inner); }

std::vector<BlockCopy::Segment> BlockCopy::common(const IndexSet& from, const IndexSet& to) {
  std::vector<Segment> segments;
  for_each_common(from, to, [&](Range r, std::int64_t in_from, std::int64_t in_to) {
    const bool joins =
        !segments.empty() && segments.back().from + segments.back().count == in_from && segments.back().to + segments.back().count == in_to;
    if (joins) {
      segments.back().count += r.count();
    } else {
      segments.push_back({in_from, in_to, r.count()});
    }
  });
  return segments;
}

BlockCopy::BlockCopy(const Region& from, const Region& to, std::int64_t from_offset, std::int64_t to_offset)
    : from_offset_(from_offset), to_offset_(to_offset) {
  if (from.empty()) loops_.push_back({{{0, 0, 1}}, 1, 1});  // a scalar
  std::int64_t from_stride = 1, to_stride = 1;
  bool inner_whole = true;
  for (std::size_t d = from.size(); d-- > 0;) {
    Loop loop{common(from[d], to[d]), from_stride, to_stride};
    if (loop.segments.empty()) {
      loops_.clear();
      return;
    }
    const std::int64_t in_from = count_of(from[d]), in_to = count_of(to[d]);
    const bool all = loop.segments.size() == 1 && loop.segments.front().count == in_from && in_from == in_to;
    from_stride *= in_from;
    to_stride *= in_to;
    // Innermost dimensions that are copied whole belong to the runs of the one around them.
    if (all && inner_whole && d > 0) continue;
    inner_whole = false;
    loops_.insert(loops_.begin(), std::move(loop));
  }
}

}  // namespace rehearsal::plan
