#pragma once
// Which share of the samples that a node wants lies in its own cache, in those of others, or on the storage alone.
//
// N samples are distributed anew among n nodes in every epoch, so a node wants a sample in an epoch with the chance p = 1 / n, and in E
// epochs Binomial(E, p) times (Dryden, Böhringer, Ben-Nun, Hoefler, "Clairvoyant Prefetching for Distributed Machine Learning I/O", SC
// 2021, section 3). A cache has room for the share c of the samples. In the first epoch nothing is there. Behind it:
//
//   first-touch   what was read stays until there is no more room: in epoch e it has min(c, 1 - (1 - p)^(e - 1)).
//   lru           what was not wanted for longest goes. A sample that was last wanted k epochs ago, at the share v of that epoch, is wanted
//                 at the share u of this one; another one was not wanted since with the chance (1 - (1 - v) p) (1 - p)^(k - 1) (1 - u p).
//                 The sample is there when that is 1 - c at least: its chance is the sum over k of p (1 - p)^(k - 1) times the share of the
//                 square of u and v where X Y >= (1 - c) / (1 - p)^(k - 1), X and Y being uniform between 1 - p and 1. On one node that is
//                 c + (1 - c) ln(1 - c): an epoch that does not fit washes out most of the one before.
//   clairvoyant   the order follows from the seed, so a node knows how often it will want each sample and keeps those that it wants most
//                 often. They come from the storage once.
//   global        first-touch on all nodes, none of which keeps what another one has; a sample that any of them has is asked for there.
//                 What room is left once they have all of them together holds copies of what was asked for.
//   global:clairvoyant   each node keeps what it will want most often, and a sample that another one keeps is asked for there (NoPFS,
//                 section 4). Of the E uses of a sample M are at nodes that keep it. Those until the first of these come from the storage:
//                 (E + 1) / (M + 1) in the mean, as uses come in random order.

#include <span>
#include <string_view>

namespace rehearsal::predict {

/// Where the samples of a node come from: shares that sum to 1.
struct CachedShares {
  double own = 0, peers = 0, storage = 1;
};

struct CacheQuestion {
  int nodes = 1;
  double room = 0;    ///< of one node: share of all samples, from 0 to 1
  double epochs = 0;  ///< of the training, the first one included; below 2: without end
};

/// A way to keep samples; one row each.
struct CacheKind {
  std::string_view name, description;
  bool asks_peers;                                           ///< over the network between nodes
  CachedShares (*behind_first_epoch)(const CacheQuestion&);  ///< in the mean of the epochs that follow the first
};
/// One row each, none first.
[[nodiscard]] std::span<const CacheKind> cache_kinds();

}  // namespace rehearsal::predict
