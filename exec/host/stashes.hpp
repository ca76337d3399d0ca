#pragma once
// Copies of results into the form in which they wait for the backward pass, and back.

#include <string>

#include "exec/kernels/compute_device.hpp"
#include "plan/plan.hpp"

namespace rehearsal::exec {

/// Of one type: as it is. From f32, f64 to f16, bf16 and back: rounded to the nearest. To and from u8: bit e mod 8 of byte e / 8 says
/// whether element e is positive; it comes back as 1 or 0. U8 of more bytes than that: sparsely, bit for bit (plan/recompute/sparse.hpp).
/// Returns how many elements were not zero where a sparse stash has room for fewer, having written nothing useful then; else 0.
[[nodiscard]] std::int64_t copy_stash(const StashTypes&, const void* from, void* to);

/// A result that is denser than the plan has room for: memory was laid out before its values were known.
struct DenseResult {
  const std::string& tensor;
  std::int64_t found = 0, elements = 1;
  int rank = 0;
  std::int64_t step = 0;  ///< counted from 0
};
/// Throws Refusal saying what to set.
[[noreturn]] void refuse_dense(const DenseResult&, const plan::Plan&);

}  // namespace rehearsal::exec
