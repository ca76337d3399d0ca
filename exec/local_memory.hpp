#pragma once
// One rank's memory: the arenas that its role was laid out for, and where in them a buffer is at a moment.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/program.hpp"

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

/// What the place of a buffer depends on besides its offset.
struct Moment {
  std::int64_t saved = 0;      ///< number of the micro-batch whose results are meant
  std::int64_t step = 0;       ///< that is played
  std::int64_t slot_step = 0;  ///< that the slot belongs to: a later one where slots run ahead
};

/// The role must outlive it.
class LocalMemory {
 public:
  explicit LocalMemory(const plan::Role&);

  [[nodiscard]] std::byte* at(plan::BufferIndex, const Moment&) const;
  /// A stored block as so many updates left it.
  [[nodiscard]] std::span<std::byte> stored(const plan::Buffer&, std::int64_t updates) const;
  /// What sums between ranks need beside their vectors.
  [[nodiscard]] std::span<std::byte> arrivals() const;
  [[nodiscard]] std::int64_t bytes() const;

 private:
  struct Place {
    bool saved = false;
    std::int32_t versions = 1;
    std::int64_t stride = 0;  ///< between versions
    plan::WeightVersion version = plan::WeightVersion::Delayed;
  };
  [[nodiscard]] Place place_of(plan::BufferIndex) const;
  [[nodiscard]] const Arena& arena_of(const plan::Buffer& b) const { return b.on_host ? host_ : device_; }

  const plan::Role& role_;
  Arena device_, host_;  ///< two even where the device's memory is the host's: what a plan offloads is moved
  std::vector<Place> places_;
};

/// A tensor that lasts from step to step, not a view of one.
[[nodiscard]] inline bool is_stored(const plan::Buffer& b) {
  return b.lifetime == plan::Lifetime::Persistent && b.part_of == plan::kNoBuffer && b.tensor != graph::TensorId::None;
}

}  // namespace rehearsal::exec
