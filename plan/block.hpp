#pragma once
#include <cstdint>
#include <span>

namespace rehearsal::plan {

/// Half-open range of indices.
struct Range {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] constexpr std::int64_t count() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Part r of n elements dealt to p parts: [⌊r·n/p⌋, ⌊(r+1)·n/p⌋). Uneven parts differ by one element, no padding.
[[nodiscard]] constexpr Range block(std::int64_t n, std::int64_t p, std::int64_t r) { return {r * n / p, (r + 1) * n / p}; }

/// How ranks share a vector: of `units` pieces rank r has block(units, ranks, r), each of `each` elements.
struct DealtOut {
  std::int64_t units = 0, each = 1;
  friend auto operator<=>(const DealtOut&, const DealtOut&) = default;
};
/// Elements of the parts of all ranks before `rank`, which has its part of each of `all`.
[[nodiscard]] constexpr std::int64_t begin_of_part(std::span<const DealtOut> all, std::int64_t ranks, std::int64_t rank) {
  std::int64_t begin = 0;
  for (const DealtOut& d : all) begin += block(d.units, ranks, rank).begin * d.each;
  return begin;
}

}  // namespace rehearsal::plan
