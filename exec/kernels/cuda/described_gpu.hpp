#pragma once
// A GPU that is not here: kernels are made for it, so that they can be asked which engine they are and what memory they want. Everything
// else is refused.

#include <string>

#include "exec/kernels/cuda/nvidia_gpu.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::exec::cuda {

class DescribedGpu final : public NvidiaGpu {
 public:
  /// Throws Refusal naming what the catalogue does not know of the device, EnvironmentFailure when cuDNN is too old for descriptions.
  explicit DescribedGpu(const platforms::Device&);

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] DnnTarget dnn_target() const override { return {nullptr, &properties_}; }
  [[nodiscard]] cudaStream_t cuda_stream() const override { not_here(); }
  [[nodiscard]] cublasLtHandle_t blas() const override { not_here(); }
  [[nodiscard]] cudnnHandle_t dnn() const override { not_here(); }

  [[nodiscard]] std::byte* allocate(std::int64_t) override { not_here(); }
  [[nodiscard]] std::byte* allocate_on_host(std::int64_t) override { not_here(); }
  void release(std::byte*, std::int64_t) noexcept override {}
  void release_on_host(std::byte*, std::int64_t) noexcept override {}
  void upload(void*, const void*, std::size_t) override { not_here(); }
  void download(void*, const void*, std::size_t) override { not_here(); }
  void copy(void*, const void*, std::size_t) override { not_here(); }
  void clear(void*, std::size_t) override { not_here(); }
  void wait() override { not_here(); }
  [[nodiscard]] std::int64_t mark() override { not_here(); }
  [[nodiscard]] double time_of(std::int64_t) override { not_here(); }
  void reorder(const ReorderTask&, const graph::TensorType&) override { not_here(); }
  void copy_block(const plan::BlockCopy&, std::size_t, const void*, void*) override { not_here(); }
  void add_block(const plan::BlockCopy&, const Addition&, const void*, void*) override { not_here(); }
  [[nodiscard]] bool has_non_finite(DType, const void*, std::int64_t) override { not_here(); }
  std::int64_t copy_stash(const StashTypes&, const void*, void*) override { not_here(); }

 private:
  [[noreturn]] void not_here() const;

  std::string name_;
  DnnDescriptor properties_;
};

}  // namespace rehearsal::exec::cuda
