#pragma once
// Which elements dropout keeps: those of the reference kernels, decided without floating point.

#include <cmath>

#include "base/random.hpp"
#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "exec/kernels/reference/draws.hpp"

namespace rehearsal::exec::cuda {

/// random_uniform(seed, stream, index) >= ratio: both sides times 2^53, of which the left one is whole.
struct Keeping {
  std::uint64_t seed, stream, least;
  Keeping(const Call& call, std::int64_t stream_number, double ratio)
      : seed(reference::seed_of(call)),
        stream(static_cast<std::uint64_t>(stream_number)),
        least(static_cast<std::uint64_t>(std::ceil(ratio * 0x1p53))) {}
  REHEARSAL_BODY bool keeps(std::uint64_t index) const { return random_bits(seed, stream, index) >> 11 >= least; }
};

}  // namespace rehearsal::exec::cuda
