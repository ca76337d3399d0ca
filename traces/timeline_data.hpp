#pragma once
// Of every trace its typical step, as the page's script reads it: short, with ranks that do the same folded into one.

#include <span>
#include <string>
#include <vector>

#include "traces/trace.hpp"

namespace rehearsal::traces {

/// Of the steps that are no warm-up the one of median duration. Throws BadInput without one.
[[nodiscard]] StepRecord typical_step(const Trace&);

/// Of measured ranks that count as alike the slowest computes longer by no more than this share.
inline constexpr double kAlikeWithin = 0.05;

/// Ranks that run the same instructions for the same micro-batches in the same order; the first one stands for all. Of measured ones only
/// those that compute as long in the step, for which the slowest stands.
struct RankRole {
  std::vector<int> ranks;
  const RankTrace* shown = nullptr;
  double computing = 0;  ///< seconds of the one that is shown, of measured ones
  bool again = false;    ///< does what one before does, in another time
};
[[nodiscard]] std::vector<RankRole> rank_roles(const Trace&, const StepRecord&);
/// "rank 3", "ranks 0 to 7 (8)", "ranks 0, 2, 4 and others (16)"
[[nodiscard]] std::string label(const RankRole&);

/// JSON, safe within <script>: of every trace its step in nanoseconds, its kinds of instructions, and its roles with a lane for computing,
/// one for messages and one for the host. Where there are more than `most` events in all, neighbours of one pass that are short are joined
/// until there are not.
[[nodiscard]] std::string timeline_data(std::span<const Trace>, std::size_t most = 30000);

}  // namespace rehearsal::traces
