#include "plan/recompute/sparse.hpp"

#include <cmath>

namespace rehearsal::plan {

std::int64_t SparseStash::mask_bytes() const {
  constexpr std::int64_t kBits = 8;
  const std::int64_t bits = (elements + kBits - 1) / kBits;
  return (bits + element_bytes - 1) / element_bytes * element_bytes;
}

std::int64_t SparseStash::bytes(double density) const {
  return mask_bytes() + static_cast<std::int64_t>(std::ceil(density * static_cast<double>(elements))) * element_bytes;
}

}  // namespace rehearsal::plan
