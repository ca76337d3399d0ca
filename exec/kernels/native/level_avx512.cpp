#include "exec/kernels/native/levels.hpp"

namespace rehearsal::exec::native {
namespace level_avx512 {
#include "exec/kernels/native/loops.inl"
}  // namespace level_avx512

const Loops& loops_avx512() { return level_avx512::kLoops; }

}  // namespace rehearsal::exec::native
