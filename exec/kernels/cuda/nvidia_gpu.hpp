#pragma once
// A GPU as the kernels of NVIDIA's libraries see it: one of this machine (gpu.hpp), or one that is only described (described_gpu.hpp), for
// which kernels are made and never run.

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "exec/kernels/compute_device.hpp"
#include "exec/kernels/cuda/dnn_graph.hpp"

namespace rehearsal::exec::cuda {

class NvidiaGpu : public ComputeDevice {
 public:
  /// For whom cuDNN plans.
  [[nodiscard]] virtual DnnTarget dnn_target() const = 0;
  // Throw InternalError where the GPU is only described.
  [[nodiscard]] virtual cudaStream_t cuda_stream() const = 0;
  [[nodiscard]] virtual cublasLtHandle_t blas() const = 0;
  [[nodiscard]] virtual cudnnHandle_t dnn() const = 0;
};

/// Of a kernel that is made for a GPU.
[[nodiscard]] inline NvidiaGpu& gpu_of(const KernelRequest& request) { return static_cast<NvidiaGpu&>(*request.device); }

}  // namespace rehearsal::exec::cuda
