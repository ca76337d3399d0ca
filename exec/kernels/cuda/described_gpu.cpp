#include "exec/kernels/cuda/described_gpu.hpp"

#include "base/error.hpp"
#include "exec/kernels/cuda/device_properties.hpp"

namespace rehearsal::exec::cuda {
namespace {

/// Throws EnvironmentFailure for a cuDNN that plans only for GPUs that are here.
const std::string& with_descriptions(const std::string& properties) {
  constexpr std::size_t kFirst = 90800;
  const auto version = cudnnGetVersion();
  if (version < kFirst)
    throw EnvironmentFailure("--device: plans for GPUs that are not here need cuDNN 9.8 or later; this one is " +
                             std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
                             std::to_string(version % 100));
  return properties;
}

}  // namespace

DescribedGpu::DescribedGpu(const platforms::Device& device)
    : name_(device.name + ", which is not here"), properties_(describe_gpu(with_descriptions(device_properties(device)))) {}

void DescribedGpu::not_here() const { throw InternalError("something was to run on " + name_); }

}  // namespace rehearsal::exec::cuda
