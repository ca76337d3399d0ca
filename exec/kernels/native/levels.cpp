#include "exec/kernels/native/levels.hpp"

namespace rehearsal::exec::native {
namespace {

const Loops& best() {
#ifdef REHEARSAL_X86_LEVELS
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512) return loops_avx512();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return loops_avx2();
#endif
  return loops_default();
}

}  // namespace

const Loops& loops() {
  static const Loops& chosen = best();
  return chosen;
}

}  // namespace rehearsal::exec::native
