#pragma once
// Lays out the arena of a role. exec/ allocates exactly these bytes, so the predicted peak of a run is its real arena.

#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// One block of memory that is needed during [begin, end] of a timeline.
struct MemoryRequest {
  std::int64_t bytes = 0;
  std::int32_t begin = 0, end = 0;  ///< inclusive
  std::int64_t offset = -1;         ///< result
};

/// Gives every request an offset such that requests with overlapping times do not overlap in memory. Returns the height of the layout.
/// Requests are placed one after the other, each at the lowest offset that fits: the largest first ("greedy by size": Pisarchyk and Lee,
/// "Efficient Memory Management for Deep Neural Net Inference", 2020, section 5.2). Where that is more than 1 % above the largest live set,
/// what is alive at that moment is placed first, as on a stack, and the rest round it: by size, by lifetime or by both, from below or
/// hanging from the top, where gradients that stay until the update grow towards activations that shrink; last, a few times,
/// what stands at the top goes first. The best is kept.
std::int64_t lay_out(std::vector<MemoryRequest>& requests);

/// The largest sum of bytes alive at one time.
[[nodiscard]] std::int64_t largest_live_set(const std::vector<MemoryRequest>& requests);

/// Sets Buffer::offset of all buffers and Role::memory. `in_flight`: micro-batches whose Saved buffers exist at once. `steps_overlap`: a
/// step follows another without a flush, so messages of one are under way in the next.
void plan_memory(Role& role, int in_flight, bool steps_overlap = false);

inline constexpr std::int64_t kBufferAlignment = 64;
/// The next multiple of it.
[[nodiscard]] constexpr std::int64_t buffer_aligned(std::int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}
/// Bytes between two versions of weights.
[[nodiscard]] constexpr std::int64_t version_stride(std::int64_t bytes) { return buffer_aligned(bytes); }

}  // namespace rehearsal::plan
