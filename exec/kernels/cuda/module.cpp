// What the module that exec/backends.cpp opens exports.
#include "exec/kernels/cuda/device_backend.hpp"
#include "exec/kernels/cuda/gpu.hpp"
#include "exec/kernels/cuda/libraries.hpp"

extern "C" __attribute__((visibility("default"))) rehearsal::exec::ComputeBackend* rehearsal_make_cuda_backend(int rank_on_machine,
                                                                                                               bool tf32) {
  using namespace rehearsal::exec::cuda;
  return new DeviceBackend(std::make_unique<Gpu>(rank_on_machine), {product_kernels(tf32), convolution_kernels(tf32)});
}
