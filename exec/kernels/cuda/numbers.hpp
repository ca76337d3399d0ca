#pragma once
// Element types of kernels for GPUs. 16-bit numbers are stored as such and computed with in f32.

#include <cstdint>
#include <cstring>

#include "exec/kernels/narrow.hpp"
#include "exec/kernels/reference/reference.hpp"

#ifdef __CUDACC__
#include <cuda_fp16.h>
/// Of functions that a kernel body calls: they run on the GPU, and on the host where this is compiled for the host.
#define REHEARSAL_BODY __host__ __device__ inline
#else
#define REHEARSAL_BODY inline
#endif

namespace rehearsal::exec::cuda {

template <class To, class From>
REHEARSAL_BODY To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

/// The upper half of an f32, rounded to the nearest, ties to even.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  REHEARSAL_BODY explicit BFloat16(float x) {
    const auto all = bits_as<std::uint32_t>(x);
    const bool nan = (all & 0x7FFFFFFFU) > 0x7F800000U;
    bits = static_cast<std::uint16_t>(nan ? (all >> 16) | 0x40U : (all + 0x7FFFU + ((all >> 16) & 1U)) >> 16);
  }
  REHEARSAL_BODY explicit operator float() const { return bits_as<float>(static_cast<std::uint32_t>(bits) << 16); }
};

/// IEEE 754 binary16, rounded to the nearest, ties to even.
struct Half {
  std::uint16_t bits = 0;
  Half() = default;
#ifdef __CUDACC__
  REHEARSAL_BODY explicit Half(float x) : bits(bits_as<std::uint16_t>(__float2half_rn(x))) {}
  REHEARSAL_BODY explicit operator float() const { return __half2float(bits_as<__half>(bits)); }
#else
  explicit Half(float x) { narrow(&x, DType::F16, &bits, 1); }
  explicit operator float() const {
    float x = 0;
    widen(&bits, DType::F16, &x, 1);
    return x;
  }
#endif
};

/// What elements of T are computed in: f32 for 16 bits, T otherwise.
template <class T>
struct RealOf {
  using type = T;
};
template <>
struct RealOf<BFloat16> {
  using type = float;
};
template <>
struct RealOf<Half> {
  using type = float;
};
template <class T>
using Real = typename RealOf<T>::type;

template <class T>
REHEARSAL_BODY Real<T> real(T x) {
  return static_cast<Real<T>>(x);
}

using Floats = reference::Types<float, double, Half, BFloat16>;
using Integers = reference::Integers;
using Numbers = reference::Types<float, double, Half, BFloat16, std::int32_t, std::int64_t>;

}  // namespace rehearsal::exec::cuda

template <>
inline constexpr rehearsal::DType rehearsal::exec::reference::kTypeOf<rehearsal::exec::cuda::Half> = rehearsal::DType::F16;
template <>
inline constexpr rehearsal::DType rehearsal::exec::reference::kTypeOf<rehearsal::exec::cuda::BFloat16> = rehearsal::DType::BF16;
