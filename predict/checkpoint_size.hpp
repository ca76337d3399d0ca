#pragma once
#include "plan/program/program.hpp"
#include "platforms/platform.hpp"
#include "predict/goodput.hpp"

namespace rehearsal::predict {

/// What `rehearse run` writes of a Program: of the ranks that hold the same block the first one writes it (exec/checkpoint/checkpoint_part.hpp).
[[nodiscard]] CheckpointSize checkpoint_size(const plan::Program&, const graph::Graph&, const platforms::Platform&);
/// Of so many bytes, shared out equally, as checkpoints of frameworks are that shard what ranks hold alike.
[[nodiscard]] CheckpointSize checkpoint_size(Bytes all, int ranks, const platforms::Platform&);

}  // namespace rehearsal::predict
