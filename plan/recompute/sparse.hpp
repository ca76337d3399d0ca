#pragma once
// Results with many zeros, stored sparsely while they wait and dense while they are used (sparse storage, dense compute: Jain et al.,
// "Gist", ISCA 2018, section 4.1). Gist stores rows of compressed columns, 5 bytes a number of f32; half of a ReLU's results are zero, and
// for so many a bit an element and the numbers themselves are fewer bytes: first the bits, bit e mod 8 of byte e / 8 being 1 where element
// e has a bit that is not 0; then, from the next multiple of an element's size on, those elements in order.

#include <cstdint>

namespace rehearsal::plan {

/// Bytes of so many elements of so many bytes each.
struct SparseStash {
  std::int64_t elements = 0, element_bytes = 1;
  /// Of the bits; where the numbers begin.
  [[nodiscard]] std::int64_t mask_bytes() const;
  [[nodiscard]] std::int64_t bytes(double density) const;
  /// Numbers for which there is room in so many bytes.
  [[nodiscard]] std::int64_t capacity(std::int64_t bytes) const { return (bytes - mask_bytes()) / element_bytes; }
};

}  // namespace rehearsal::plan
