#pragma once
// The backend for GPUs on an emulated one: our own kernels' bodies run on the host, and kernels of the host stand in for NVIDIA's
// libraries.

#include <memory>

#include "exec/kernels/cuda/device_backend.hpp"
#include "tests/exec/gpu/emulated_gpu.hpp"

namespace rehearsal::exec {

class EmulatedBackend final : public cuda::DeviceBackend {
 public:
  EmulatedBackend();
  /// Its kernels work on the device's memory, those of the host on copies.
  [[nodiscard]] std::shared_ptr<Kernel> make(const std::string& implementation, const KernelRequest& request) const override;
};

}  // namespace rehearsal::exec
