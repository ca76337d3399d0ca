#pragma once
// One table of loops per instruction set.

#include <string_view>
#include <vector>

#include "exec/kernels/native/loops.hpp"

namespace rehearsal::exec::native {

[[nodiscard]] const Loops& loops_default();
[[nodiscard]] const Loops& loops_avx2();    ///< x86 with AVX2 and FMA
[[nodiscard]] const Loops& loops_avx512();  ///< x86 with AVX-512 F, BW, DQ, VL

/// Instruction sets beyond the plainest, each with those before it.
enum class Level : std::uint8_t { Default, Avx2, Avx512, Avx512Bf16, Amx };
/// False where the environment's REHEARSAL_MAX_ISA (default, avx2, avx512, avx512_bf16 or amx) names a lower one, as for trying what other
/// machines run. Throws BadInput for another word.
[[nodiscard]] bool allows(Level level);

/// As REHEARSAL_MAX_ISA calls the instruction set of these loops.
[[nodiscard]] std::string_view name_of(const Loops&);

/// Those that this machine can run and REHEARSAL_MAX_ISA allows, the best first.
[[nodiscard]] std::vector<const Loops*> levels_here();

}  // namespace rehearsal::exec::native
