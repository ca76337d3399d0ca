#include "exec/kernels/native/levels.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace rehearsal::exec::native {

bool allows(Level level) {
  constexpr std::array<std::string_view, 4> kNames = {"default", "avx2", "avx512", "amx"};
  const char* limit = std::getenv("REHEARSAL_MAX_ISA");
  if (limit == nullptr || *limit == '\0') return true;
  const auto at = std::find(kNames.begin(), kNames.end(), std::string_view(limit));
  if (at == kNames.end())
    throw BadInput("REHEARSAL_MAX_ISA", "\"" + std::string(limit) + "\" is no instruction set; use default, avx2, avx512 or amx");
  return static_cast<std::ptrdiff_t>(level) <= at - kNames.begin();
}

std::vector<const Loops*> levels_here() {
  std::vector<const Loops*> levels;
#ifdef REHEARSAL_X86_LEVELS
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512 && allows(Level::Avx512)) levels.push_back(&loops_avx512());
  if (allows(Level::Avx2) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) levels.push_back(&loops_avx2());
#endif
  levels.push_back(&loops_default());
  return levels;
}

const Loops& loops() {
  static const Loops& chosen = *levels_here().front();
  return chosen;
}

}  // namespace rehearsal::exec::native
