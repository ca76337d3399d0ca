#pragma once
// A GPU as a backend: kernels of its libraries first, then those of our own; what neither runs is run by the host's kernels, on copies:
// slow, printed as "host:...", and right. Which GPU it is, and which libraries, says whoever makes it (cuda_module.cpp).

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/host/cpu_backend.hpp"
#include "exec/kernels/compute_backend.hpp"
#include "exec/kernels/kernel_tables.hpp"

namespace rehearsal::exec::cuda {

class DeviceBackend : public ComputeBackend {
 public:
  /// `libraries`: rows that are asked before those of body_kernels().
  DeviceBackend(std::unique_ptr<ComputeDevice> device, const std::vector<std::span<const KernelRow>>& libraries);

  [[nodiscard]] std::string_view name() const override { return "cuda"; }
  [[nodiscard]] plan::KernelOffer offer(const plan::LocalNode& node) const override;
  [[nodiscard]] bool reorders(const graph::TensorType& type, plan::Format from, plan::Format to) const override;
  [[nodiscard]] bool fuses_attention() const override { return true; }
  [[nodiscard]] std::shared_ptr<Kernel> make(const std::string& implementation, const KernelRequest& request) const override;
  void forget() const override;
  [[nodiscard]] ComputeDevice& device() const override { return *device_; }

 private:
  std::unique_ptr<ComputeDevice> device_;
  KernelTables tables_;
  CpuBackend host_;
  mutable std::map<std::string, plan::KernelOffer> known_;  ///< by signature: asking libraries is costly
};

}  // namespace rehearsal::exec::cuda
