// Compiled for AVX512_BF16: as in loops.inl, nothing in it may be shared with code compiled for another instruction set.

#include "exec/kernels/native/bf16_dots.hpp"

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace rehearsal::exec::native {

#ifdef __AVX512BF16__

namespace {

/// Of c in registers: rows x vectors. So many sums hide the instruction's latency, and b is read once for all rows.
constexpr int kDotRows = 4, kDotVectors = 4;
constexpr std::int64_t kDotLanes = 16;
/// So deep a part of b, of kDotVectors vectors, takes half of a first-level cache of 32 kB while all rows of a go over it.
constexpr std::int64_t kDotDepth = 128;

template <int R, int C>
void multiply_dots(const TileProduct& p, const std::uint16_t* a, const std::uint32_t* b, float* c) {
  __m512 sum[R][C];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < C; ++v) sum[r][v] = p.adds ? _mm512_loadu_ps(c + r * p.c_row + v * kDotLanes) : _mm512_setzero_ps();
  for (std::int64_t k = 0; k < p.depth; k += 2, a += 2, b += p.b_row) {
    __m512i row[C];
#pragma GCC unroll 4
    for (int v = 0; v < C; ++v) row[v] = _mm512_loadu_si512(b + v * kDotLanes);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      int pair = 0;
      __builtin_memcpy(&pair, a + r * p.a_row, sizeof pair);
      const __m512i factor = _mm512_set1_epi32(pair);
#pragma GCC unroll 4
      for (int v = 0; v < C; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], (__m512bh)factor, (__m512bh)row[v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < C; ++v) _mm512_storeu_ps(c + r * p.c_row + v * kDotLanes, sum[r][v]);
}

template <int C>
void multiply_columns(const TileProduct& p, const std::uint16_t* a, const std::uint32_t* b, float* c) {
  std::int64_t i = 0;
  for (; i + kDotRows <= p.rows; i += kDotRows) multiply_dots<kDotRows, C>(p, a + i * p.a_row, b, c + i * p.c_row);
  for (; i < p.rows; ++i) multiply_dots<1, C>(p, a + i * p.a_row, b, c + i * p.c_row);
}

void multiply_part(const TileProduct& p, const std::uint16_t* a, const std::uint32_t* b, float* c) {
  std::int64_t j = 0;
  for (; j + kDotVectors * kDotLanes <= p.columns; j += kDotVectors * kDotLanes) multiply_columns<kDotVectors>(p, a, b + j, c + j);
  switch ((p.columns - j) / kDotLanes) {
    case 1:
      return multiply_columns<1>(p, a, b + j, c + j);
    case 2:
      return multiply_columns<2>(p, a, b + j, c + j);
    case 3:
      return multiply_columns<3>(p, a, b + j, c + j);
    default:
      return;
  }
}

}  // namespace

bool compiles_bf16_dots() { return true; }

void dot_product(const TileProduct& whole, const std::uint16_t* a, const std::uint32_t* b, float* c) {
  TileProduct p = whole;
  for (std::int64_t k = 0; k < whole.depth; k += kDotDepth) {
    p.depth = whole.depth - k < kDotDepth ? whole.depth - k : kDotDepth;
    p.adds = whole.adds || k > 0;
    multiply_part(p, a + k, b + k / 2 * p.b_row, c);
  }
}

#else

bool compiles_bf16_dots() { return false; }
void dot_product(const TileProduct&, const std::uint16_t*, const std::uint32_t*, float*) {}

#endif

}  // namespace rehearsal::exec::native
