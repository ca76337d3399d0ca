#pragma once
// A checkpoint is a folder: parameters, optimizer slots, running statistics, step and seed, by tensor name, so that it can be read by
// another plan. Its manifest and every part have a checksum, which is compared whenever they are read. Where a folder is named, it may be
// a checkpoint or hold several: the one that was written last is read (folder.hpp). writer.hpp writes them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "exec/checkpoint/manifest.hpp"
#include "exec/play/executor.hpp"

namespace rehearsal::exec {

/// A whole tensor, row-major.
struct StoredValue {
  graph::TensorType type;
  std::vector<std::byte> bytes;
};
using StoredValues = std::map<std::string, StoredValue>;

/// What was trained, by tensor name: parameters (master weights where there are some; their average where the optimizer keeps one) and
/// running statistics. Collective: rank 0 gets them, the others nothing.
[[nodiscard]] StoredValues trained_values(Executor&, const Training&);
/// All tensors of a checkpoint but optimizer slots, as trained_values() has them. Throws BadInput as load_checkpoint() does.
[[nodiscard]] StoredValues read_checkpoint(const std::string& folder);

/// Throws BadInput as load_checkpoint() does; reads no part.
[[nodiscard]] CheckpointHeader read_checkpoint_header(const std::string& folder);

/// What a checkpoint has of that which ranks keep for themselves (exec/checkpoint/checkpoint_part.hpp), seen from a Program that goes on.
struct HeldKept {
  bool all = true;        ///< that its ranks look for is there
  bool not_sent = false;  ///< there is something that a compressor had not sent of gradients, of any kind
  /// What no rank looks for, and is lost: what was not sent, the optimizer's state of replicas but the first, the momentum of meetings.
  bool loses_not_sent = false, loses_state = false, loses_outer_momentum = false;
};
/// Of a checkpoint whose ranks were not apart yet nothing is lost, and slots that begin with `now` (OtherSlots) are not looked for. Throws
/// BadInput as load_checkpoint() does; reads no part.
[[nodiscard]] HeldKept held_kept(const std::string& folder, const plan::Program&, const graph::Graph&, const TrainedAs& now);

/// The hash of what is trained, had it the batch and the optimizer's numbers of a checkpoint.
using HashAsThen = std::function<std::string(const CheckpointHeader&)>;
/// Collective. Sets every stored tensor but the slots that begin (OtherSlots), the step and the sample that training goes on with; returns
/// the header. Throws BadInput naming file and tensor when the checkpoint is missing, half written, damaged or of another model than `now`.
CheckpointHeader load_checkpoint(const std::string& folder, Executor&, const Training&, const HashAsThen& hash_as_then = {},
                                 const TrainedAs& now = {});

}  // namespace rehearsal::exec
