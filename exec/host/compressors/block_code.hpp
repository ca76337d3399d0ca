#pragma once
// Compressors that work on blocks of plan::kCompressedBlock elements (plan::CompressedSum::Shares): how a rank writes a block of its
// gradient, and a block of the sum over all ranks. One file each.

#include <cstddef>
#include <cstdint>

#include "plan/choices.hpp"

namespace rehearsal::exec {

/// What all blocks of a gradient have in common.
struct BlockTask {
  double setting = 0;
  int ranks = 1;  ///< whose blocks are summed
};

/// Numbers that are not finite are written so that they are found in the sum.
template <class T>
struct BlockCode {
  /// Writes plan::SharedBlocks::block_bytes, or sum_bytes, of a block of at most plan::kCompressedBlock elements.
  void (*write)(const BlockTask&, const T* block, std::int64_t elements, std::byte* to);
  /// Adds what was written to `sum`.
  void (*add)(const BlockTask&, const std::byte* from, std::int64_t elements, T* sum);
};

template <class T>
struct BlockCodePair {
  BlockCode<T> own, sum;
};

struct BlockCodes {
  plan::CompressionRule rule;
  BlockCodePair<float> f32;
  BlockCodePair<double> f64;
};
[[nodiscard]] BlockCodes one_bit_adam_code();
[[nodiscard]] BlockCodes sparcml_code();

}  // namespace rehearsal::exec
