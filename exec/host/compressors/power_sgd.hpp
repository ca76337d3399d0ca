#pragma once
// The arithmetic of PowerSGD (plan/low_rank.hpp), on the host. Matrices lie row by row.

#include <cstdint>

#include "base/dtype.hpp"
#include "plan/low_rank.hpp"

namespace rehearsal::exec {

/// One gradient in one step; random numbers that all ranks draw alike.
struct FactorTask {
  plan::LowRankFactors size;
  std::uint64_t step_seed = 0, shared_stream = 0;
};

/// What a rank has of its gradient M, and what it keeps between steps: first as many elements as M has that earlier sums lacked, then Q.
/// Adds the former to M and writes P = M Q to `first`. Columns of Q that are zero, all of them at first, are drawn anew.
void first_factor(DType, const FactorTask&, void* gradient, void* kept, void* first);
/// Q = Mᵀ P to `second`, from the sum of P over the ranks with its columns made orthonormal (Gram and Schmidt).
void second_factor(DType, const FactorTask&, const void* gradient, const void* first_sum, void* second);

struct FactorSums {
  const void *first, *second;
  int ranks = 1;
};
/// M becomes P Qᵀ, the sum over the ranks; what the mean of it lacks of this rank's own is kept, and so is Q. Where a sum is not all
/// numbers M becomes NaN, and what was kept stays.
void from_factors(DType, const FactorTask&, const FactorSums&, void* gradient, void* kept);

}  // namespace rehearsal::exec
