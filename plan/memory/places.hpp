#pragma once
// Where in the arenas of a role a buffer is at a moment: what exec/ computes with, and what check_messages() holds to account.

#include <cstdint>
#include <vector>

#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// What the place of a buffer depends on besides its offset.
struct Moment {
  std::int64_t saved = 0;      ///< number of the micro-batch whose results are meant
  std::int64_t step = 0;       ///< that is played
  std::int64_t slot_step = 0;  ///< that the slot belongs to: a later one where slots run ahead
};

/// Of a slot of a rank that plays `step`.
[[nodiscard]] Moment moment_of(const Program&, const Role&, const Slot&, std::int64_t step);

/// The role must outlive it.
class Places {
 public:
  explicit Places(const Role&);

  /// Offset into the arena that the buffer lies in (Buffer::on_host).
  [[nodiscard]] std::int64_t at(BufferIndex, const Moment&) const;
  /// The same of a stored block as so many updates left it.
  [[nodiscard]] static std::int64_t stored(const Buffer&, std::int64_t updates);

 private:
  struct Place {
    bool saved = false, sent = false;
    std::int32_t versions = 1;
    std::int64_t stride = 0;  ///< between versions
    WeightVersion version = WeightVersion::Delayed;
  };
  [[nodiscard]] Place place_of(BufferIndex) const;

  const Role& role_;
  std::vector<Place> places_;
};

}  // namespace rehearsal::plan
