// What the module that exec/backends.cpp opens exports.
#include "exec/kernels/cuda/described_gpu.hpp"
#include "exec/kernels/cuda/device_backend.hpp"
#include "exec/kernels/cuda/gpu.hpp"
#include "exec/kernels/cuda/libraries.hpp"

namespace {

using namespace rehearsal::exec;

ComputeBackend* backend_of(std::unique_ptr<ComputeDevice> device, bool tf32) {
  return new cuda::DeviceBackend(std::move(device),
                                 {cuda::product_kernels(tf32), cuda::convolution_kernels(tf32), cuda::dnn_attention_kernels()});
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) ComputeBackend* rehearsal_make_cuda_backend(int rank_on_machine, bool tf32) {
  return backend_of(std::make_unique<cuda::Gpu>(rank_on_machine), tf32);
}

/// Of a GPU that is not here.
__attribute__((visibility("default"))) ComputeBackend* rehearsal_make_described_backend(const rehearsal::platforms::Device& device,
                                                                                        bool tf32) {
  return backend_of(std::make_unique<cuda::DescribedGpu>(device), tf32);
}

}  // extern "C"
