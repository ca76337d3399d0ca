#pragma once
// A checkpoint is a folder: parameters, optimizer slots, running statistics, step and seed, by tensor name, so that it can be read by
// another plan. Written beside the old one and renamed, so that a crash leaves the old one whole. Its manifest and every part have a
// checksum, which is compared whenever they are read.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "exec/executor.hpp"

namespace rehearsal::exec {

struct CheckpointHeader {
  std::string model_hash;
  std::int64_t step = 0, samples = 0;  ///< that are done; that were seen
  std::uint64_t seed = 0;
  std::int64_t batch = 0;
  std::string dtype;
};

/// A whole tensor, row-major.
struct StoredValue {
  graph::TensorType type;
  std::vector<std::byte> bytes;
};
using StoredValues = std::map<std::string, StoredValue>;

/// What was trained, by tensor name: parameters (master weights where there are some) and running statistics. Collective; on rank 0, the
/// others get nothing.
[[nodiscard]] StoredValues trained_values(Executor&, const Training&);
/// All tensors of a checkpoint but optimizer slots, as trained_values() has them. Throws BadInput as load_checkpoint() does.
[[nodiscard]] StoredValues read_checkpoint(const std::string& folder);

/// Throws BadInput as load_checkpoint() does; reads no part.
[[nodiscard]] CheckpointHeader read_checkpoint_header(const std::string& folder);

/// Collective. Throws EnvironmentFailure naming the file when the disk is full, BadInput when `folder` is a file.
void save_checkpoint(const std::string& folder, const CheckpointHeader&, Executor&, const Training&);
/// The hash of what is trained, had it another batch.
using HashWithBatch = std::function<std::string(std::int64_t batch)>;
/// Collective. Sets every stored tensor, the step and the sample that training goes on with; returns the header. Throws BadInput naming
/// file and tensor when the checkpoint is missing, half written, damaged or of another model.
CheckpointHeader load_checkpoint(const std::string& folder, Executor&, const Training&, const HashWithBatch& hash_with_batch = {});

}  // namespace rehearsal::exec
