#pragma once
// How long one collective takes by itself on a platform, by every algorithm: what `rehearse collective` compares.

#include <string>
#include <vector>

#include "costmodel/collective_library.hpp"
#include "predict/step_cost.hpp"

namespace rehearsal::predict {

struct CollectiveQuestion {
  const platforms::Platform& platform;
  const costmodel::CostModel& model;  ///< of the devices of slowest_adding()
  plan::CollectiveKind kind = plan::CollectiveKind::AllReduce;
  int ranks = 1;                                                  ///< the first so many devices of the platform
  Bytes size;                                                     ///< of the full vector
  costmodel::LibraryRelease release = costmodel::kNewestRelease;  ///< of the vendor's library
};

struct CollectiveTime {
  std::string algorithm;  ///< empty: a library whose algorithms are not known (TPU, Gaudi)
  Seconds seconds;
  BytesPerSecond bus;    ///< nccl-tests' bus bandwidth: what each rank's link carries
  bool chosen = false;   ///< what runs where nobody names an algorithm: the library's choice, or ours of least closed form on processors
  bool library = false;  ///< not one of our algorithms, but one that the collective library of the device's vendor has
  std::string protocol = {};  ///< of the library: "LL128"
};

/// Of the kinds of nodes that the first `ranks` devices are on, the one whose devices add slowest: what the others wait for.
[[nodiscard]] std::size_t slowest_adding(const platforms::Platform&, int ranks);

/// Whether the library of its devices is NCCL or RCCL, so that a release can be asked about.
[[nodiscard]] bool has_library_releases(const platforms::Platform&);

/// Every algorithm of ours of the kind, then (for devices that have one) every algorithm and protocol that the library can take, its choice
/// marked. `evaluator` plays the steps.
/// Throws Refusal when the platform has fewer devices than `ranks`, or there is nobody to send to.
[[nodiscard]] std::vector<CollectiveTime> collective_times(const CollectiveQuestion&, StepEvaluator&);

/// What the library has and cannot take for this collective on this platform.
struct MissingAlgorithm {
  std::string algorithm, protocol, why;
};
/// Whatever the size of the vector; none where the devices have no library, or its algorithms are not known.
[[nodiscard]] std::vector<MissingAlgorithm> missing_algorithms(const CollectiveQuestion&);

/// Bytes that the busiest link of a rank carries for a byte of the vector (nccl-tests, PERFORMANCE.md): 2(P-1)/P for an all-reduce.
[[nodiscard]] double bus_factor(plan::CollectiveKind, int ranks);

}  // namespace rehearsal::predict
