#include "exec/kernels/narrow.hpp"

#include <algorithm>

#include "exec/kernels/native/native.hpp"

namespace rehearsal::exec {

using native::Bf16;
using native::F16;
using native::loops_over;

namespace {

/// Calls body(numbers of that type, first, count) for the parts of all threads.
template <class F>
void for_parts(DType type, std::int64_t count, int threads, const F& body) {
  native::parallel_ranges(threads, count, native::kElementsWorthAThread, [&](std::int64_t first, std::int64_t last) {
    if (type == DType::BF16)
      body(Bf16{}, first, last - first);
    else
      body(F16{}, first, last - first);
  });
}

}  // namespace

void widen(const void* from, DType type, float* to, std::int64_t count, int threads) {
  for_parts(type, count, threads, [&](auto like, std::int64_t first, std::int64_t n) {
    using T = decltype(like);
    loops_over<T>().to_f32(to + first, static_cast<const T*>(from) + first, n);
  });
}

void narrow(const float* from, DType type, void* to, std::int64_t count, int threads) {
  for_parts(type, count, threads, [&](auto like, std::int64_t first, std::int64_t n) {
    using T = decltype(like);
    loops_over<T>().from_f32(static_cast<T*>(to) + first, from + first, n);
  });
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
