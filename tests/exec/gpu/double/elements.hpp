#pragma once
// One element of a tensor in any floating-point type, as f64.

#include <cstdint>

#include "base/dtype.hpp"
#include "exec/kernels/narrow.hpp"

namespace rehearsal::exec::gpu_double {

inline double element(DType type, const void* data, std::int64_t i) {
  if (type == DType::F64) return static_cast<const double*>(data)[i];
  if (type == DType::F32) return static_cast<const float*>(data)[i];
  float value = 0;
  widen(static_cast<const std::uint16_t*>(data) + i, type, &value, 1);
  return value;
}

inline void set_element(DType type, void* data, std::int64_t i, double value) {
  if (type == DType::F64) {
    static_cast<double*>(data)[i] = value;
    return;
  }
  const auto single = static_cast<float>(value);
  if (type == DType::F32) static_cast<float*>(data)[i] = single;
  if (type != DType::F32) narrow(&single, type, static_cast<std::uint16_t*>(data) + i, 1);
}

}  // namespace rehearsal::exec::gpu_double
