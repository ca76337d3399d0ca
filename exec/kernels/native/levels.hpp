#pragma once
// One table of loops per instruction set.

#include <vector>

#include "exec/kernels/native/loops.hpp"

namespace rehearsal::exec::native {

[[nodiscard]] const Loops& loops_default();
[[nodiscard]] const Loops& loops_avx2();    ///< x86 with AVX2 and FMA
[[nodiscard]] const Loops& loops_avx512();  ///< x86 with AVX-512 F, BW, DQ, VL

/// Those that this machine can run, the best first.
[[nodiscard]] std::vector<const Loops*> levels_here();

}  // namespace rehearsal::exec::native
