#pragma once
#include <algorithm>
#include <cstdint>

#include "exec/kernels/native/loops.hpp"

namespace rehearsal::exec::native {

/// A matrix and its transpose in memory: rows of `from` are `from_stride` apart, rows of `to` (columns of `from`) `to_stride`.
template <class T>
struct MatrixTranspose {
  const T* from;
  T* to;
  std::int64_t rows, columns, from_stride, to_stride;

  void run() const {
    if constexpr (sizeof(T) == 4)
      loops().transpose32(from, from_stride, to, to_stride, rows, columns);
    else if constexpr (sizeof(T) == 2)
      loops().transpose16(from, from_stride, to, to_stride, rows, columns);
    else
      by_squares();
  }

 private:
  /// Through a small square, so that whole cache lines are read and written even where strides are powers of two, which would make
  /// the lines of one column evict each other.
  void by_squares() const {
    T square[kTile][kTile];
    for (std::int64_t r0 = 0; r0 < rows; r0 += kTile) {
      for (std::int64_t c0 = 0; c0 < columns; c0 += kTile) {
        const std::int64_t height = std::min(kTile, rows - r0), width = std::min(kTile, columns - c0);
        for (std::int64_t r = 0; r < height; ++r)
          for (std::int64_t c = 0; c < width; ++c) square[c][r] = from[(r0 + r) * from_stride + c0 + c];
        for (std::int64_t c = 0; c < width; ++c)
          for (std::int64_t r = 0; r < height; ++r) to[(c0 + c) * to_stride + r0 + r] = square[c][r];
      }
    }
  }

  static constexpr std::int64_t kTile = 16;
};

}  // namespace rehearsal::exec::native
