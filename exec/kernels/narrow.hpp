#pragma once
// Conversions between f32 and the 16-bit types, to the nearest, ties to even (IEEE 754-2019, 4.3.1).

#include <cstdint>

#include "base/dtype.hpp"

namespace rehearsal::exec {

[[nodiscard]] constexpr bool is_narrow(DType type) { return type == DType::BF16 || type == DType::F16; }

/// `type` is that of `from`, which is_narrow(). Parts of many numbers are shared among as many threads.
void widen(const void* from, DType type, float* to, std::int64_t count, int threads = 1);
/// `type` is that of `to`, which is_narrow(). Numbers beyond its range become infinite.
void narrow(const float* from, DType type, void* to, std::int64_t count, int threads = 1);
/// sum += addend, in f32, rounded once.
void add_narrow(void* sum, const void* addend, DType type, std::int64_t count);

}  // namespace rehearsal::exec
