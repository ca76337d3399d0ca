#include "exec/kernels/native/levels.hpp"

namespace rehearsal::exec::native {
namespace level_default {
#include "exec/kernels/native/loops.inl"
}  // namespace level_default

const Loops& loops_default() { return level_default::kLoops; }

}  // namespace rehearsal::exec::native
