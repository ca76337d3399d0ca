#pragma once
// Who keeps the others waiting, and where they wait.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exec/play/executor.hpp"

namespace rehearsal::exec {

/// Of one rank, over a training.
struct RankTimes {
  double busy = 0, waited = 0;  ///< seconds
  std::string awaited;          ///< what it waited for longest: "all-reduce of 'fc1.weight'"
  double awaited_seconds = 0;   ///< that alone
};

/// A rank that takes longer for what other ranks do, too.
struct Straggler {
  int rank = 0;
  double slower = 0;    ///< share of the median of the ranks of its role: 0.2 takes a fifth longer
  std::string awaited;  ///< where the rank that waited most of them all waited longest
  double awaited_seconds = 0;
  int awaited_by = -1;  ///< that rank
};

/// Adds up where this rank waits.
class Waiting {
 public:
  /// Of a step that is done.
  void add(const StepResult&);
  /// Collective; on rank 0 of all ranks, else empty.
  [[nodiscard]] std::vector<RankTimes> gather(const Training&) const;

 private:
  double busy_ = 0, waited_ = 0;
  std::map<std::pair<std::uint16_t, std::uint32_t>, double> awaited_;  ///< seconds by body and instruction
};

/// Ranks that take at least so much longer than the median of those that do the same, the slowest first. Ranks of other stages and shares
/// have other work, and are no measure; nor is a rank that is alone.
[[nodiscard]] std::vector<Straggler> stragglers(const plan::Program&, const std::vector<RankTimes>&, double least = 0.15);

}  // namespace rehearsal::exec
