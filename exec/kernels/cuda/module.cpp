// What the module that exec/backends.cpp opens exports.
#include "exec/kernels/cuda/backend.hpp"

extern "C" __attribute__((visibility("default"))) rehearsal::exec::ComputeBackend* rehearsal_make_cuda_backend(int rank_on_machine,
                                                                                                               bool tf32) {
  return new rehearsal::exec::cuda::CudaBackend({rank_on_machine, tf32});
}
