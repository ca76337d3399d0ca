#include "exec/kernels/native/levels.hpp"

namespace rehearsal::exec::native {
namespace level_avx2 {
#include "exec/kernels/native/loops.inl"
}  // namespace level_avx2

const Loops& loops_avx2() { return level_avx2::kLoops; }

}  // namespace rehearsal::exec::native
