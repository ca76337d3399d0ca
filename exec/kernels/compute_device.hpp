#pragma once
// Where a rank computes: its memory, and the order in which it does what it is asked for. The host is one; a GPU is another, whose memory
// this process cannot read and whose work goes on while the host goes on.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "exec/kernels/device_collectives.hpp"
#include "exec/kernels/kernel.hpp"

namespace rehearsal::plan {
class BlockCopy;
}

namespace rehearsal::exec {

/// Two local tensors: what a stash makes of one, or back.
struct StashTypes {
  const graph::TensorType &from, &to;
};

/// One more addend of a sum over micro-batches, which has plan::sum_type().
struct Addition {
  DType dtype = DType::F32;
  bool first = false;  ///< whatever was there before is of another step
};

/// Copies between formats: plain <-> channels-last, any element type, rank 3 to 5; plain copies otherwise.
struct ReorderTask {
  const void* from;
  void* to;
  plan::Format from_format, to_format;
};

/// Calls return when the work is in order behind what was asked before, except where they say more.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;
  ComputeDevice() = default;
  ComputeDevice(const ComputeDevice&) = delete;
  ComputeDevice& operator=(const ComputeDevice&) = delete;
  [[nodiscard]] virtual std::string name() const = 0;
  /// True: its memory is this process's own, and what was asked for is done when the call returns.
  [[nodiscard]] virtual bool is_host() const { return false; }
  [[nodiscard]] virtual DeviceStream stream() const { return {}; }
  [[nodiscard]] virtual Fault* fault() { return nullptr; }

  /// Zero-filled. Throws EnvironmentFailure naming how much was wanted when there is too little.
  [[nodiscard]] virtual std::byte* allocate(std::int64_t bytes) = 0;
  /// Memory of the host from and to which it copies quickly. Zero-filled.
  [[nodiscard]] virtual std::byte* allocate_on_host(std::int64_t bytes) = 0;
  virtual void release(std::byte*, std::int64_t bytes) noexcept = 0;
  virtual void release_on_host(std::byte*, std::int64_t bytes) noexcept = 0;

  /// From the host's memory, which is free again when this returns.
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  /// To the host's memory: done when this returns.
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void clear(void* to, std::size_t bytes) = 0;
  /// Until everything that was asked for is done. Throws BadInput for an index outside its dimension, EnvironmentFailure when the device
  /// is lost.
  virtual void wait() = 0;
  /// A moment in the order of its work, in seconds of now_seconds() once it has come: for times of what goes on without the host.
  [[nodiscard]] virtual std::int64_t mark() = 0;
  /// Waits for that moment. Marks are forgotten by the next call of forget_marks().
  [[nodiscard]] virtual double time_of(std::int64_t mark) = 0;
  virtual void forget_marks() {}

  /// With the devices of other ranks, so many of which run on this machine. nullptr: this device does none, and the host has to.
  [[nodiscard]] virtual std::unique_ptr<DeviceCollectives> collectives(int ranks_on_machine, const Meeting&) {
    static_cast<void>(ranks_on_machine);
    return nullptr;
  }

  // What the executor itself does with elements.
  virtual void reorder(const ReorderTask&, const graph::TensorType&) = 0;
  virtual void copy_block(const plan::BlockCopy&, std::size_t element_bytes, const void* from, void* to) = 0;
  /// Adds elements to where they would be copied. The copy must outlive the device's work on it.
  virtual void add_block(const plan::BlockCopy&, const Addition&, const void* from, void* to) = 0;
  /// Is there a number among them that is none (exec/host/non_finite.hpp)? Waits for the answer.
  [[nodiscard]] virtual bool has_non_finite(DType, const void* data, std::int64_t elements) = 0;
  /// exec/host/stashes.hpp. Returns what was found where a sparse stash has no room for it, 0 otherwise.
  virtual std::int64_t copy_stash(const StashTypes&, const void* from, void* to) = 0;
};

/// This process's cores and memory. Its work on elements is shared by as many threads as OpenMP is set to.
[[nodiscard]] std::unique_ptr<ComputeDevice> make_host();

/// Memory of a device, or of the host for it; given back on destruction.
class DeviceMemory {
 public:
  enum class Where : std::uint8_t { Device, Host };
  DeviceMemory(ComputeDevice& device, std::int64_t bytes, Where where = Where::Device);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::byte* at(std::int64_t offset) const { return data_ + offset; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  ComputeDevice& device_;
  std::int64_t bytes_;
  Where where_;
  std::byte* data_;
};

}  // namespace rehearsal::exec
