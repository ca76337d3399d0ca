#pragma once
// What the ranks did last, for whoever looks why a job has failed.

#include <string>

#include "exec/play/executor.hpp"

namespace rehearsal::exec {

/// "MatMul fc1", "all-reduce of 'fc1.weight'".
[[nodiscard]] std::string instruction_text(const Training&, const plan::Role&, const plan::Instruction&);
/// "step 12, forward pass of micro-batch 0, MatMul fc1"; "…, waiting for all-reduce of 'fc1.weight'".
[[nodiscard]] std::string described(const Training&, int rank, const BoardNote&);

/// Writes `path` with a JSON line for each rank of this node: its process, whether that has ended or was stopped, what it was at, and its
/// last instructions with how long ago they began. What cannot be written is left out: the job has failed already.
/// Returns whether it was written.
bool write_last_instructions(const std::string& path, const Training&);

}  // namespace rehearsal::exec
