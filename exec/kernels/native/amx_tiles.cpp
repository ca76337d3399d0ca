#include "exec/kernels/native/amx_tiles.hpp"

#include "exec/kernels/native/levels.hpp"

#ifdef __AMX_BF16__
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace rehearsal::exec::native {

#ifdef __AMX_BF16__

namespace {

bool processor_has_tiles() {
  constexpr unsigned kBf16 = 1U << 22U, kTiles = 1U << 24U;  // CPUID leaf 7, EDX
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBf16) != 0 && (d & kTiles) != 0;
}

/// Linux saves tiles only for processes that asked (Documentation/arch/x86/xstate.rst).
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

/// Every tile 16 rows of 64 bytes.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

/// R x C tiles of c, 0 to 3, from tiles 4 and 5 of a, and 6 and 7 of b.
template <int R, int C>
void multiply(const TileProduct& p, const std::uint16_t* a, const std::uint32_t* b, float* c) {
  const auto a_bytes = 2 * p.a_row, b_bytes = 4 * p.b_row, c_bytes = 4 * p.c_row;
  float* below = c + kTileRows * p.c_row;
  if (p.adds) {
    _tile_loadd(0, c, c_bytes);
    if constexpr (C > 1) _tile_loadd(1, c + kTileColumns, c_bytes);
    if constexpr (R > 1) _tile_loadd(2, below, c_bytes);
    if constexpr (R > 1 && C > 1) _tile_loadd(3, below + kTileColumns, c_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t k = 0; k < p.depth; k += kTileDepth, a += kTileDepth, b += kTileDepth / 2 * p.b_row) {
    _tile_loadd(4, a, a_bytes);
    _tile_loadd(6, b, b_bytes);
    if constexpr (R > 1) _tile_loadd(5, a + kTileRows * p.a_row, a_bytes);
    if constexpr (C > 1) _tile_loadd(7, b + kTileColumns, b_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (C > 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (R > 1) _tile_dpbf16ps(2, 5, 6);
    if constexpr (R > 1 && C > 1) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_bytes);
  if constexpr (C > 1) _tile_stored(1, c + kTileColumns, c_bytes);
  if constexpr (R > 1) _tile_stored(2, below, c_bytes);
  if constexpr (R > 1 && C > 1) _tile_stored(3, below + kTileColumns, c_bytes);
}

template <int R>
void multiply_rows(const TileProduct& p, const std::uint16_t* a, const std::uint32_t* b, float* c) {
  std::int64_t j = 0;
  for (; j + 2 * kTileColumns <= p.columns; j += 2 * kTileColumns) multiply<R, 2>(p, a, b + j, c + j);
  if (j < p.columns) multiply<R, 1>(p, a, b + j, c + j);
}

}  // namespace

bool has_tiles(std::string& reason) {
  static const bool possible = processor_has_tiles() && may_use_tiles();
  if (possible && allows(Level::Amx)) return true;
  reason = possible ? "REHEARSAL_MAX_ISA forbids AMX" : "the processor has no AMX for bf16, or the system does not let it be used";
  return false;
}

void tile_product(const TileProduct& p, const std::uint16_t* a, const std::uint32_t* b, float* c) {
  static const TileShapes shapes;
  _tile_loadconfig(&shapes);
  std::int64_t i = 0;
  for (; i + 2 * kTileRows <= p.rows; i += 2 * kTileRows) multiply_rows<2>(p, a + i * p.a_row, b, c + i * p.c_row);
  if (i < p.rows) multiply_rows<1>(p, a + i * p.a_row, b, c + i * p.c_row);
  _tile_release();
}

#else

bool has_tiles(std::string& reason) {
  reason = "built for processors without AMX";
  return false;
}

void tile_product(const TileProduct&, const std::uint16_t*, const std::uint32_t*, float*) {}

#endif

}  // namespace rehearsal::exec::native
