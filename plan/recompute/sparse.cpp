#include "plan/recompute/sparse.hpp"

#include <cmath>
#include <string_view>

#include "base/error.hpp"
#include "base/parse_number.hpp"

namespace rehearsal::plan {

std::optional<double> sparse_density(const std::string& compression) {
  const std::string_view name = kSparseCompression;
  if (!compression.starts_with(name)) return std::nullopt;
  if (compression == name) return kUsualDensity;
  const auto density = compression[name.size()] == ':' ? parse_number<double>(compression.substr(name.size() + 1)) : std::nullopt;
  if (!density || !(*density > 0) || *density > 1)
    throw BadInput("must be gist-sparse:X, X being the share of elements other than zero that a result has room for: above 0, at most 1");
  return density;
}

std::int64_t SparseStash::mask_bytes() const {
  constexpr std::int64_t kBits = 8;
  const std::int64_t bits = (elements + kBits - 1) / kBits;
  return (bits + element_bytes - 1) / element_bytes * element_bytes;
}

std::int64_t SparseStash::bytes(double density) const {
  return mask_bytes() + static_cast<std::int64_t>(std::ceil(density * static_cast<double>(elements))) * element_bytes;
}

}  // namespace rehearsal::plan
