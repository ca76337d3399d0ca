#pragma once
// A GPU for machines without one: its memory is memory of this process that nobody may touch but the device. What the host reads or writes
// there by itself ends in a fault of the processor, so that whoever takes a device's memory for the host's is found.

#include <map>
#include <memory>

#include "exec/kernels/compute_device.hpp"

namespace rehearsal::exec {

class EmulatedGpu final : public ComputeDevice {
 public:
  /// While it lives, the device works, and its memory is open.
  class Working {
   public:
    explicit Working(EmulatedGpu& gpu);
    ~Working();
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;

   private:
    EmulatedGpu& gpu_;
  };

  [[nodiscard]] std::string name() const override { return "an emulated GPU"; }
  [[nodiscard]] Fault* fault() override { return &fault_; }
  [[nodiscard]] std::byte* allocate(std::int64_t bytes) override;
  [[nodiscard]] std::byte* allocate_on_host(std::int64_t bytes) override;
  void release(std::byte*, std::int64_t bytes) noexcept override;
  void release_on_host(std::byte*, std::int64_t bytes) noexcept override;
  void upload(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override;
  void clear(void* to, std::size_t bytes) override;
  void wait() override;
  [[nodiscard]] std::int64_t mark() override { return host_->mark(); }
  [[nodiscard]] double time_of(std::int64_t mark) override { return host_->time_of(mark); }
  void forget_marks() override { host_->forget_marks(); }
  void reorder(const ReorderTask&, const graph::TensorType&) override;
  void copy_block(const plan::BlockCopy&, std::size_t element_bytes, const void* from, void* to) override;
  void add_block(const plan::BlockCopy&, const Addition&, const void* from, void* to) override;
  [[nodiscard]] bool has_non_finite(DType, const void* data, std::int64_t elements) override;
  std::int64_t copy_stash(const StashTypes&, const void* from, void* to) override;

 private:
  void protect(int protection);

  std::unique_ptr<ComputeDevice> host_ = make_host();
  std::map<std::byte*, std::int64_t> memory_;  ///< bytes by address
  int working_ = 0;
  Fault fault_;
};

}  // namespace rehearsal::exec
