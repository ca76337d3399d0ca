#pragma once
#include <cstdint>

namespace rehearsal::plan {

/// Half-open range of indices.
struct Range {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] constexpr std::int64_t count() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Part r of n elements dealt to p parts: [⌊r·n/p⌋, ⌊(r+1)·n/p⌋). Uneven parts differ by one element, no padding.
[[nodiscard]] constexpr Range block(std::int64_t n, std::int64_t p, std::int64_t r) { return {r * n / p, (r + 1) * n / p}; }

}  // namespace rehearsal::plan
