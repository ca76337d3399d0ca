#include "exec/kernels/native/levels.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "exec/kernels/native/bf16_dots.hpp"

namespace rehearsal::exec::native {

namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"default", "avx2", "avx512", "avx512_bf16", "amx"};  // in order of Level

}  // namespace

bool allows(Level level) {
  const char* limit = std::getenv("REHEARSAL_MAX_ISA");
  if (limit == nullptr || *limit == '\0') return true;
  const auto at = std::find(kLevelNames.begin(), kLevelNames.end(), std::string_view(limit));
  if (at == kLevelNames.end())
    throw BadInput("REHEARSAL_MAX_ISA",
                   "\"" + std::string(limit) + "\" is no instruction set; use default, avx2, avx512, avx512_bf16 or amx");
  return static_cast<std::ptrdiff_t>(level) <= at - kLevelNames.begin();
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

std::string_view name_of(const Loops& of) {
  auto level = Level::Default;
#ifdef REHEARSAL_X86_LEVELS
  if (&of == &loops_avx512()) level = Level::Avx512;
  if (&of == &loops_avx2()) level = Level::Avx2;
#else
  static_cast<void>(of);
#endif
  return kLevelNames[static_cast<std::size_t>(level)];
}

bool has_bf16_dots(std::string& reason) {
  reason = "built for processors without AVX512_BF16";
  if (!compiles_bf16_dots()) return false;
#ifdef REHEARSAL_X86_LEVELS
  const bool possible = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bf16");
  if (possible && allows(Level::Avx512Bf16)) return true;
  reason = possible ? "REHEARSAL_MAX_ISA forbids AVX512_BF16" : "the processor has no AVX512_BF16";
#endif
  return false;
}

const Loops& loops() {
  static const Loops& chosen = *levels_here().front();
  return chosen;
}

}  // namespace rehearsal::exec::native
