#pragma once
// What this process can compute on, by name.

#include <memory>
#include <string>

#include "exec/backend.hpp"

namespace rehearsal::exec {

/// "auto": the host's fast kernels; "onednn", "reference": those of the host; "cuda": an NVIDIA GPU, of which this rank takes the one of
/// its number among the ranks of its machine, round and round; "cuda-tf32": the same, with products in f32 on tensor cores. Throws BadInput
/// for another name, EnvironmentFailure when the device or its libraries are not there.
[[nodiscard]] std::unique_ptr<ComputeBackend> make_backend(const std::string& name, int rank_on_machine = 0);
/// "auto, onednn, reference, cuda or cuda-tf32"
[[nodiscard]] std::string backend_names();

}  // namespace rehearsal::exec
