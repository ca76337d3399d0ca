// In place of librehearsal_cuda.so (REHEARSAL_CUDA_MODULE): `rehearse run --backend cuda` then trains on an emulated GPU.
#include "tests/exec/gpu/emulated_backend.hpp"

extern "C" __attribute__((visibility("default"))) rehearsal::exec::ComputeBackend* rehearsal_make_cuda_backend(int, bool) {
  return new rehearsal::exec::EmulatedBackend();
}
