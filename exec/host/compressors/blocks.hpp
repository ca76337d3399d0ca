#pragma once
// Blocks of elements whose codes, whatever their bits, fill whole bytes: threads share them.

#include <algorithm>
#include <cstdint>

#include "plan/compressors.hpp"

namespace rehearsal::exec {

inline constexpr std::int64_t kBlock = plan::kCompressedBlock;

[[nodiscard]] inline std::int64_t blocks_of(std::int64_t elements) { return (elements + kBlock - 1) / kBlock; }
/// Where the codes of a block begin.
[[nodiscard]] inline std::int64_t code_offset(std::int64_t block, int bits) { return block * kBlock / 8 * bits; }

/// Calls work(block, first element, end).
template <class Work>
void each_block(std::int64_t elements, const Work& work) {
  const auto blocks = blocks_of(elements);
#pragma omp parallel for schedule(static)
  for (std::int64_t b = 0; b < blocks; ++b) work(b, b * kBlock, std::min(elements, (b + 1) * kBlock));
}

}  // namespace rehearsal::exec
