#pragma once
// Calls of NVIDIA's libraries, whose failures become errors of ours.

#include <cuda_runtime.h>

#include <string>

#include "base/error.hpp"

namespace rehearsal::exec::cuda {

/// Throws EnvironmentFailure saying what could not be done, and why.
inline void check(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return;
  throw EnvironmentFailure(std::string("GPU: ") + doing + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
}

}  // namespace rehearsal::exec::cuda
