#include "exec/kernels/narrow.hpp"

#include <algorithm>

#include "exec/kernels/native/loops.hpp"

namespace rehearsal::exec {

using native::Bf16;
using native::F16;
using native::loops_over;

void widen(const void* from, DType type, float* to, std::int64_t count) {
  if (type == DType::BF16)
    loops_over<Bf16>().to_f32(to, static_cast<const Bf16*>(from), count);
  else
    loops_over<F16>().to_f32(to, static_cast<const F16*>(from), count);
}

void narrow(const float* from, DType type, void* to, std::int64_t count) {
  if (type == DType::BF16)
    loops_over<Bf16>().from_f32(static_cast<Bf16*>(to), from, count);
  else
    loops_over<F16>().from_f32(static_cast<F16*>(to), from, count);
}

void add_narrow(void* sum, const void* addend, DType type, std::int64_t count) {
  constexpr std::int64_t kBlock = 1024;
  float a[kBlock], b[kBlock];
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const auto n = std::min(kBlock, count - first);
    auto* to = static_cast<std::uint16_t*>(sum) + first;
    widen(to, type, a, n);
    widen(static_cast<const std::uint16_t*>(addend) + first, type, b, n);
    for (std::int64_t i = 0; i < n; ++i) a[i] += b[i];
    narrow(a, type, to, n);
  }
}

}  // namespace rehearsal::exec
