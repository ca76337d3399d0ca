#pragma once
// One NVIDIA GPU: its memory, a stream on which everything is done in order, and the handles of the libraries that work on that stream.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/kernels/cuda/moves.hpp"
#include "exec/kernels/cuda/nvidia_gpu.hpp"

namespace rehearsal::exec::cuda {

class Gpu final : public NvidiaGpu {
 public:
  /// Takes the GPU of that number, round and round. Throws EnvironmentFailure when there is none, or its driver is too old.
  explicit Gpu(int rank_on_machine);
  ~Gpu() override;

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] DeviceStream stream() const override { return {stream_}; }
  [[nodiscard]] Fault* fault() override { return fault_; }
  [[nodiscard]] DnnTarget dnn_target() const override { return {dnn_, nullptr}; }
  [[nodiscard]] cudaStream_t cuda_stream() const override { return stream_; }
  [[nodiscard]] cublasLtHandle_t blas() const override { return blas_; }
  [[nodiscard]] cudnnHandle_t dnn() const override { return dnn_; }

  [[nodiscard]] std::byte* allocate(std::int64_t bytes) override;
  [[nodiscard]] std::byte* allocate_on_host(std::int64_t bytes) override;
  void release(std::byte*, std::int64_t bytes) noexcept override;
  void release_on_host(std::byte*, std::int64_t bytes) noexcept override;

  void upload(void* to, const void* from, std::size_t bytes) override;
  void download(void* to, const void* from, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void clear(void* to, std::size_t bytes) override;
  void wait() override;
  [[nodiscard]] std::int64_t mark() override;
  [[nodiscard]] double time_of(std::int64_t mark) override;
  void forget_marks() override;
  /// Of an event that has happened, as time_of().
  [[nodiscard]] double seconds_of(cudaEvent_t) const;
  /// By NCCL, where every rank of this machine has a GPU of its own: it takes no two ranks on one.
  [[nodiscard]] std::unique_ptr<DeviceCollectives> collectives(int ranks_on_machine, const Meeting&) override;

  void reorder(const ReorderTask&, const graph::TensorType&) override;
  void copy_block(const plan::BlockCopy&, std::size_t element_bytes, const void* from, void* to) override;
  void add_block(const plan::BlockCopy&, const Addition&, const void* from, void* to) override;
  [[nodiscard]] bool has_non_finite(DType, const void* data, std::int64_t elements) override;
  std::int64_t copy_stash(const StashTypes&, const void* from, void* to) override;

 private:
  /// Runs of a block copy, kept on the device: copies of a plan are few, and made at every micro-batch.
  struct KnownRuns {
    std::int64_t count = 0, elements = 0;  ///< runs, and of all together
    std::unique_ptr<DeviceMemory> on_device;
  };
  const KnownRuns& runs_of(const plan::BlockCopy&);

  std::string name_;
  cudaStream_t stream_ = nullptr;
  cublasLtHandle_t blas_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
  Fault* fault_ = nullptr;
  std::vector<cudaEvent_t> events_;
  std::size_t marks_ = 0;
  cudaEvent_t base_ = nullptr;  ///< of which the host knows the time
  double base_seconds_ = 0;
  std::map<const plan::BlockCopy*, KnownRuns> runs_;
};

}  // namespace rehearsal::exec::cuda
