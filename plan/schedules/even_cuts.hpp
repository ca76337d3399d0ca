#pragma once
#include <cstddef>
#include <vector>

namespace rehearsal::plan {

/// A row of pieces that stages share out in order.
struct CutRow {
  std::size_t stages = 1;
  std::vector<std::vector<double>> costs;  ///< of every piece: by stage, or once for all
  std::vector<double> crossing;            ///< [i]: cost of cutting before piece i
  std::vector<int> devices = {};           ///< that have the stages, where one has several; empty: each has its own
};

/// First piece of every stage but the first: such that the stage that takes longest and the widest cut take least together. Of those the
/// cuts that are nearest to where the stages' parts of all cost end, then those that let least cross. Every stage has a piece. Where
/// devices have several stages, some may take longer so that devices take equally long.
[[nodiscard]] std::vector<std::size_t> even_cuts(const CutRow&);

}  // namespace rehearsal::plan
