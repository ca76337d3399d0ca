#pragma once
// One rank's memory: the arenas that its role was laid out for, and where in them a buffer is at a moment.

#include <cstddef>
#include <cstdint>
#include <span>

#include "plan/memory/places.hpp"

namespace rehearsal::exec {

/// Anonymous memory, zero-filled; given back on destruction.
class Arena {
 public:
  /// Throws EnvironmentFailure when there is too little.
  explicit Arena(std::int64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  [[nodiscard]] std::byte* at(std::int64_t offset) const { return data_ + offset; }
  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(bytes_); }

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

/// The role must outlive it.
class LocalMemory {
 public:
  explicit LocalMemory(const plan::Role&);

  [[nodiscard]] std::byte* at(plan::BufferIndex, const plan::Moment&) const;
  /// A stored block as so many updates left it.
  [[nodiscard]] std::span<std::byte> stored(const plan::Buffer&, std::int64_t updates) const;
  /// What sums between ranks need beside their vectors.
  [[nodiscard]] std::span<std::byte> arrivals() const;
  [[nodiscard]] std::int64_t bytes() const;

 private:
  [[nodiscard]] const Arena& arena_of(const plan::Buffer& b) const { return b.on_host ? host_ : device_; }

  const plan::Role& role_;
  plan::Places places_;
  Arena device_, host_;  ///< two even where the device's memory is the host's: what a plan offloads is moved
};

/// A tensor that lasts from step to step, not a view of one.
[[nodiscard]] inline bool is_stored(const plan::Buffer& b) {
  return b.lifetime == plan::Lifetime::Persistent && b.part_of == plan::kNoBuffer && b.tensor != graph::TensorId::None;
}

}  // namespace rehearsal::exec
