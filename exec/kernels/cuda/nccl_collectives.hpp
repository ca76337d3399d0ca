#pragma once
// Collectives of GPUs by NCCL, on a stream of their own.

#include <memory>

#include "exec/kernels/device_collectives.hpp"

namespace rehearsal::exec::cuda {

class Gpu;

/// nullptr where the backend was built without NCCL. The GPU must outlive them.
[[nodiscard]] std::unique_ptr<DeviceCollectives> make_nccl_collectives(Gpu&, const Meeting&);

}  // namespace rehearsal::exec::cuda
