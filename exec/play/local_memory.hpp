#pragma once
// One rank's memory: the arenas that its role was laid out for, and where in them a buffer is at a moment.

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/kernels/compute_device.hpp"
#include "plan/memory/places.hpp"

namespace rehearsal::exec {

/// The role must outlive it.
class LocalMemory {
 public:
  /// Throws EnvironmentFailure when the device, or the host, has too little.
  LocalMemory(const plan::Role&, ComputeDevice&);

  [[nodiscard]] std::byte* at(plan::BufferIndex, const plan::Moment&) const;
  /// A stored block as so many updates left it.
  [[nodiscard]] std::span<std::byte> stored(const plan::Buffer&, std::int64_t updates) const;
  /// What sums between ranks need beside their vectors.
  [[nodiscard]] std::span<std::byte> arrivals() const;
  [[nodiscard]] std::int64_t bytes() const;

 private:
  [[nodiscard]] const DeviceMemory& arena_of(const plan::Buffer& b) const { return b.on_host ? host_ : device_; }

  const plan::Role& role_;
  plan::Places places_;
  DeviceMemory device_, host_;  ///< two even where the device's memory is the host's: what a plan offloads is moved
};

/// A tensor that lasts from step to step, not a view of one.
[[nodiscard]] inline bool is_stored(const plan::Buffer& b) {
  return b.lifetime == plan::Lifetime::Persistent && b.part_of == plan::kNoBuffer && b.tensor != graph::TensorId::None;
}

}  // namespace rehearsal::exec
