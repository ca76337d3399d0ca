#pragma once
// Memory in which parts of a sum arrive before they are added. What runs collectives and what plans memory follow these rules alike.

#include <span>

#include "plan/collectives/collective.hpp"

namespace rehearsal::plan {

/// Messages longer than this travel in pieces, and a piece is added while the next one arrives.
inline constexpr std::size_t kSegmentBytes = 256 * 1024;
/// Pieces on their way to be added where they are taken in turn: enough that none waits for the one before.
inline constexpr std::size_t kArrivalPlaces = 8;

struct SegmentSize {
  std::size_t element_bytes = 4, segment_bytes = kSegmentBytes;
};
/// Elements of a piece of a message of `count` elements; at least 1.
[[nodiscard]] std::int64_t piece_elements(std::int64_t count, const SegmentSize&);

/// Steps from the first of `steps` on that begin and end together.
[[nodiscard]] std::span<const CollectiveStep> together(std::span<const CollectiveStep> steps);

/// What steps under way together send and receive.
struct Overlap {
  bool any = false, same = false;  ///< ranges in common; one step that sends what it receives
};
[[nodiscard]] Overlap overlap_of(std::span<const CollectiveStep> together);
/// Pieces of one message are taken in their order. Those of several at once, or such as wait until all of the own ones are sent, need
/// places of their own: a peer could wait for a piece that nobody has asked for yet.
[[nodiscard]] bool arrive_by_turns(std::span<const CollectiveStep> together);

/// Bytes that these steps of one rank need beside a vector of `count` elements: scratch that they name behind it, and room for arrivals.
struct BesideVector {
  std::int64_t scratch = 0, arrivals = 0;
};
[[nodiscard]] BesideVector beside_vector(std::span<const CollectiveStep> steps, std::int64_t count, const SegmentSize&);

/// Gives the role a buffer that holds what its sums between ranks need beside their vectors: the most of any, as they follow each other.
/// None where they need nothing. The role's bodies are complete; its memory is planned afterwards.
void add_arrivals(Role&, const Program&);

}  // namespace rehearsal::plan
