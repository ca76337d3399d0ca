#pragma once
// Ranks that are not always equally quick: how long replicas wait for each other, by how they meet.

#include <memory>

#include "plan/plan.hpp"
#include "predict/predictor.hpp"

namespace rehearsal::predict {

/// The time that a rank computes in a step is that of the prediction times a number of mean 1, drawn anew for every rank and step from a
/// lognormal distribution. A rank that is always slow is another device of the platform.
struct Jitter {
  double spread = 0;  ///< standard deviation of that number
};

/// Mean time of a step by which replicas fall behind one that is always of mean speed, over the mean time that a rank computes in it.
/// A step of a replica takes as long as the slowest of its ranks.
///   gradients are summed in every step   the slowest of all ranks sets the pace of every step
///   local_steps=H                        the slowest sum of H steps of a replica sets the pace
///   staleness=S                          a replica begins meeting n once all others are behind n - S; any: never waits
///   outer=gossip                         a replica waits for its two neighbours
[[nodiscard]] double waiting_for_stragglers(const plan::Plan&, const Jitter&);

/// The answers of `inner`, their steps longer by what ranks wait for each other. Throws BadInput when the spread is below 0 or above 5.
[[nodiscard]] std::unique_ptr<Predictor> with_jitter(std::unique_ptr<Predictor> inner, const Jitter&);

}  // namespace rehearsal::predict
