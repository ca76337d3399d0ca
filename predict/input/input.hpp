#pragma once
// How long a step's samples take to come, when a step waits for them, and what caches change.
//
// A node wants b samples a step, of s stored bytes each and r requests to storage. The shares (own, peers, storage) of them come from its
// own cache, those of other nodes, and the storage that the data lies on (predict/input/cached_shares.hpp). With k requests under way at a
// time, n nodes that read, and rates R, a step's samples are there every
//
//   storage    max(b storage s / R_node, n b storage s / R_all, b storage r latency / k)
//   disk       b (own, as far as it is on the disk) s / R_disk
//   network    b peers s / R_cards
//   decoding   b_rank work / min(threads, cores of the rank)       every rank of the first stage prepares its replica's samples
//
// seconds, whichever is longest: they are streams beside each other, as in NoPFS's model (Dryden et al., SC 2021, section 4: a read is the
// slower one of fetching and preprocessing). Read-ahead hides that behind computation C, so a step takes max(C, input). Where ranks are
// CPU cores, decoding has no cores of its own: a step takes max(C + decoding, the others).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "costmodel/interval.hpp"
#include "plan/plan.hpp"
#include "platforms/platform.hpp"
#include "predict/input/cached_shares.hpp"

namespace rehearsal::predict {

/// The data of a training.
struct DatasetFacts {
  double samples = 0;         ///< of an epoch
  Bytes stored;               ///< of one sample
  double requests = 1;        ///< to the storage for one sample: 1 where each has a file of its own
  std::optional<Bytes> jpeg;  ///< pixels of one sample, 3 bytes each, that JPEG is decoded to
  /// Of one core, until a sample is what the model reads; over what `jpeg` says.
  std::optional<platforms::Sourced<Seconds>> work;
  bool on_disk = false;  ///< every node has all of it on its own disks
};

struct InputQuestion {
  DatasetFacts data;
  const CacheKind* cache = nullptr;  ///< a row of cache_kinds(); nullptr: none
  std::optional<Bytes> cache_size;   ///< memory of a node for it, over what the platform says
  std::optional<int> threads;        ///< of each rank that read and prepare; nothing: as many as its share of the cores
  double steps = 0;                  ///< of the training; 0: not known
};

enum class InputPart : std::uint8_t { Storage, Disk, Network, Decoding, Count };
inline constexpr std::array<std::string_view, 4> kInputPartNames{"storage", "disk of the cache", "network of the cache", "decoding"};
inline constexpr std::array<std::string_view, 4> kInputPartKeys{"storage", "disk", "network", "decoding"};
[[nodiscard]] constexpr std::string_view name(InputPart part) { return kInputPartNames[static_cast<std::size_t>(part)]; }

/// Of one step.
struct InputTimes {
  std::array<costmodel::Interval, static_cast<std::size_t>(InputPart::Count)> parts;  ///< of the node that takes longest
  CachedShares from;
  costmodel::Interval pace;                ///< the samples of one more step are there so often: what has nothing to do with computing
  costmodel::Interval beside;              ///< that decoding takes from the cores that compute
  InputPart longest = InputPart::Storage;  ///< of all parts
  [[nodiscard]] costmodel::Interval step(const costmodel::Interval& computing) const;
  [[nodiscard]] InputPart bound_by(const costmodel::Interval& computing) const;
};

/// The input of a plan.
struct StepInput {
  InputTimes first, later;  ///< a step of the first epoch, and of one of those that follow
  Bytes bytes;              ///< stored bytes of a step, all nodes together, each sample of a node once
  double epoch_steps = 0;   ///< steps of an epoch
};

/// What keeps input out of predictions for a platform, and what would mend it; empty: nothing.
[[nodiscard]] std::string unknown_storage(const platforms::Platform&);
/// Throws BadInput naming the option or key that is wrong or missing: what a platform has to say of storage, caches and networks.
void check_input(const InputQuestion&, const platforms::Platform&);
/// Of a question that was checked. Replicas are taken to have equal shares of the batch.
[[nodiscard]] StepInput input_of(const InputQuestion&, const platforms::Platform&, const plan::Plan&, std::int64_t batch);
/// What that rests on, in sentences.
[[nodiscard]] std::string grounds_of_input(const InputQuestion&, const platforms::Platform&);

}  // namespace rehearsal::predict
