#pragma once
// The backend for NVIDIA GPUs as the program opens it, on the double of a GPU, with every piece of its work told what the Program gives it
// to read and write. Two pieces that touch the same memory in no certain order end the program.

#include <memory>
#include <string>

#include "exec/kernels/cuda/device_backend.hpp"
#include "exec/kernels/cuda/gpu.hpp"
#include "tests/exec/gpu/double/machine.hpp"

namespace rehearsal::exec::gpu_double {

class WatchedGpu final : public cuda::NvidiaGpu {
 public:
  explicit WatchedGpu(int rank_on_machine) : gpu_(rank_on_machine) {}

  [[nodiscard]] std::string name() const override { return gpu_.name(); }
  [[nodiscard]] exec::DeviceStream stream() const override { return gpu_.stream(); }
  [[nodiscard]] Fault* fault() override { return gpu_.fault(); }
  [[nodiscard]] cuda::DnnTarget dnn_target() const override { return gpu_.dnn_target(); }
  [[nodiscard]] cudaStream_t cuda_stream() const override { return gpu_.cuda_stream(); }
  [[nodiscard]] cublasLtHandle_t blas() const override { return gpu_.blas(); }
  [[nodiscard]] cudnnHandle_t dnn() const override { return gpu_.dnn(); }

  [[nodiscard]] std::byte* allocate(std::int64_t bytes) override { return gpu_.allocate(bytes); }
  [[nodiscard]] std::byte* allocate_on_host(std::int64_t bytes) override { return gpu_.allocate_on_host(bytes); }
  void release(std::byte* data, std::int64_t bytes) noexcept override { gpu_.release(data, bytes); }
  void release_on_host(std::byte* data, std::int64_t bytes) noexcept override { gpu_.release_on_host(data, bytes); }
  void upload(void* to, const void* from, std::size_t bytes) override;
  void download(void* to, const void* from, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override { gpu_.copy(to, from, bytes); }
  void clear(void* to, std::size_t bytes) override { gpu_.clear(to, bytes); }
  /// Throws InternalError naming the first pair that is in no certain order.
  void wait() override;
  [[nodiscard]] std::int64_t mark() override { return gpu_.mark(); }
  [[nodiscard]] double time_of(std::int64_t mark) override { return gpu_.time_of(mark); }
  void forget_marks() override { gpu_.forget_marks(); }
  [[nodiscard]] std::unique_ptr<DeviceCollectives> collectives(int ranks_on_machine, const Meeting& meeting) override {
    return gpu_.collectives(ranks_on_machine, meeting);
  }
  void reorder(const ReorderTask&, const graph::TensorType&) override;
  void copy_block(const plan::BlockCopy&, std::size_t element_bytes, const void* from, void* to) override;
  void add_block(const plan::BlockCopy&, const Addition&, const void* from, void* to) override;
  [[nodiscard]] bool has_non_finite(DType, const void* data, std::int64_t elements) override;
  std::int64_t copy_stash(const StashTypes&, const void* from, void* to) override;

 private:
  cuda::Gpu gpu_;
};

class WatchedBackend final : public cuda::DeviceBackend {
 public:
  WatchedBackend(int rank_on_machine, bool tf32);
  /// Its kernels say what they read and write: nothing but their operands, results and workspace.
  [[nodiscard]] std::shared_ptr<Kernel> make(const std::string& implementation, const KernelRequest& request) const override;
};

}  // namespace rehearsal::exec::gpu_double
