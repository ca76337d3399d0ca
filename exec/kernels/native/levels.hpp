#pragma once
// One table of loops per instruction set.

#include "exec/kernels/native/loops.hpp"

namespace rehearsal::exec::native {

[[nodiscard]] const Loops& loops_default();
[[nodiscard]] const Loops& loops_avx2();    ///< x86 with AVX2 and FMA
[[nodiscard]] const Loops& loops_avx512();  ///< x86 with AVX-512 F, BW, DQ, VL

}  // namespace rehearsal::exec::native
