#pragma once
// Products of bf16 by the processor's dot products of pairs (AVX512_BF16, vdpbf16ps): Intel 64 and IA-32 Architectures Software
// Developer's Manual, volume 2. Sums are f32; the instruction takes numbers below 2^-126 for 0, as AMX does.

#include <cstdint>
#include <string>

#include "exec/kernels/native/amx_tiles.hpp"

namespace rehearsal::exec::native {

/// As has_tiles(): REHEARSAL_MAX_ISA below avx512_bf16 forbids them.
[[nodiscard]] bool has_bf16_dots(std::string& reason);
/// False where the compiler did not know the instruction.
[[nodiscard]] bool compiles_bf16_dots();
/// As tile_product(), of any number of rows; columns come in whole vectors of 16, and the depth is even.
void dot_product(const TileProduct&, const std::uint16_t* a, const std::uint32_t* b, float* c);

}  // namespace rehearsal::exec::native
