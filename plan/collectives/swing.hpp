#pragma once
// Who meets whom in the all-reduce "swing": what messages share of a network follows from that (predict/group_links.hpp).

namespace rehearsal::plan {

/// The rank that `rank` exchanges with in step 0, 1, ... log2 P - 1 of both halves; -1: one that hands its vector over and stays out.
[[nodiscard]] int partner_in_swing(int rank, int step, int ranks);

}  // namespace rehearsal::plan
