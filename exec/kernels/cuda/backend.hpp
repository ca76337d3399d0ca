#pragma once
// An NVIDIA GPU as a backend: products by cuBLASLt, convolutions by cuDNN, everything else by kernels of our own. What none of them runs is
// run by the host's kernels, on copies: slow, printed as "host:...", and right.

#include <map>
#include <memory>
#include <string>

#include "exec/backend.hpp"
#include "exec/kernels/cpu_backend.hpp"
#include "exec/kernels/cuda/gpu.hpp"
#include "exec/kernels/kernel_tables.hpp"

namespace rehearsal::exec::cuda {

struct BackendOptions {
  int rank_on_machine = 0;
  bool tf32 = false;  ///< factors of products and convolutions in f32 are rounded to 10 bits of fraction
};

class CudaBackend final : public ComputeBackend {
 public:
  /// Throws EnvironmentFailure when there is no GPU.
  explicit CudaBackend(const BackendOptions& options);

  [[nodiscard]] std::string_view name() const override { return "cuda"; }
  [[nodiscard]] plan::KernelOffer offer(const plan::LocalNode& node) const override;
  [[nodiscard]] bool reorders(const graph::TensorType& type, plan::Format from, plan::Format to) const override;
  [[nodiscard]] bool fuses_attention() const override { return true; }
  [[nodiscard]] std::shared_ptr<Kernel> make(const std::string& implementation, const KernelRequest& request) const override;
  void forget() const override;
  [[nodiscard]] Device& device() const override { return *gpu_; }

 private:
  std::unique_ptr<Gpu> gpu_;
  KernelTables tables_;
  CpuBackend host_;
  mutable std::map<std::string, plan::KernelOffer> known_;  ///< by signature: asking libraries is costly
};

}  // namespace rehearsal::exec::cuda
