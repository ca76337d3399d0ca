#pragma once
// Products of bf16 by the processor's tile registers (AMX): Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1,
// chapter 18. Sums are f32.

#include <cstdint>
#include <string>

namespace rehearsal::exec::native {

/// Rows, columns and depth that a tile of a, b or c has; what is multiplied comes in whole ones.
inline constexpr std::int64_t kTileRows = 16, kTileColumns = 16, kTileDepth = 32;

/// c = a b, or (`adds`) c += a b, of whole tiles. a lies by rows. b lies by pairs of its rows: word b[k / 2][column] holds rows k and k
/// + 1.
struct TileProduct {
  std::int64_t rows, columns, depth;
  std::int64_t a_row, b_row, c_row;  ///< elements between rows: of 2, 4 and 4 bytes
  bool adds;
};

/// True when this machine multiplies tiles of bf16 and this process may; else says why not. REHEARSAL_MAX_ISA below amx forbids it, too.
[[nodiscard]] bool has_tiles(std::string& reason);
void tile_product(const TileProduct&, const std::uint16_t* a, const std::uint32_t* b, float* c);

}  // namespace rehearsal::exec::native
