#pragma once
// How many samples of a step each replica takes: Plan::shares.

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace rehearsal::plan {

/// "3:1", or "24x8:8x8" for 8 replicas with 24 each and 8 with 8 each. Throws BadInput saying what would be right.
[[nodiscard]] std::vector<std::int64_t> shares_in(const std::string& text);
[[nodiscard]] std::string text_of_shares(const std::vector<std::int64_t>&);
/// False of "equal" and "speed".
[[nodiscard]] bool names_shares(const Plan&);

/// Samples of every replica, which add up to the batch: shares that the plan names, rounded; else block(), as between equal devices.
[[nodiscard]] std::vector<std::int64_t> samples_of_replicas(std::int64_t batch, const Plan&);
/// Are they other than those of block()?
[[nodiscard]] bool has_uneven_shares(std::int64_t batch, const Plan&);
/// Of every replica. Where shares are uneven each has as many as its own samples make; else all have those of the largest.
[[nodiscard]] std::vector<int> micro_batches_of_replicas(std::int64_t batch, const Plan&);

/// A replica takes `fixed` + `per_sample` seconds for each of its samples.
struct ReplicaPace {
  double fixed = 0, per_sample = 1;
};
/// The shares, in whole `unit`s but for one replica's, with which the last replica ends earliest: all at about the same time.
[[nodiscard]] std::vector<std::int64_t> samples_by_pace(std::int64_t batch, std::int64_t unit, const std::vector<ReplicaPace>&);

}  // namespace rehearsal::plan
