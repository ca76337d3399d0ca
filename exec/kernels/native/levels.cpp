#include "exec/kernels/native/levels.hpp"

namespace rehearsal::exec::native {

std::vector<const Loops*> levels_here() {
  std::vector<const Loops*> levels;
#ifdef REHEARSAL_X86_LEVELS
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512) levels.push_back(&loops_avx512());
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) levels.push_back(&loops_avx2());
#endif
  levels.push_back(&loops_default());
  return levels;
}

const Loops& loops() {
  static const Loops& chosen = *levels_here().front();
  return chosen;
}

}  // namespace rehearsal::exec::native
