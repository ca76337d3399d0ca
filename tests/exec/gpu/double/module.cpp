// In place of librehearsal_cuda.so (REHEARSAL_CUDA_MODULE): the backend itself, compiled for the host, on the double of a GPU.
#include "exec/kernels/cuda/described_gpu.hpp"
#include "exec/kernels/cuda/libraries.hpp"
#include "tests/exec/gpu/double/watched_gpu.hpp"

using namespace rehearsal::exec;

extern "C" {

__attribute__((visibility("default"))) ComputeBackend* rehearsal_make_cuda_backend(int rank_on_machine, bool tf32) {
  return new gpu_double::WatchedBackend(rank_on_machine, tf32);
}

__attribute__((visibility("default"))) ComputeBackend* rehearsal_make_described_backend(const rehearsal::platforms::Device& device,
                                                                                        bool tf32) {
  return new cuda::DeviceBackend(std::make_unique<cuda::DescribedGpu>(device),
                                 {cuda::product_kernels(tf32), cuda::convolution_kernels(tf32)});
}

}  // extern "C"
