#pragma once
// One-sided messages with notification, as GASPI has them (Grünewald, Simmendinger: The GASPI API specification and its implementation
// GPI 2.0, PGAS 2013), by MPI's one-sided communication: a sender puts a part into the receiver's memory and raises a counter there. The
// receiver needs no call for a part to arrive; it takes the part from where it has arrived, and raises a counter at the sender, which says
// that the place is free again.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/comm/communicator.hpp"
#include "plan/collectives/message_arrivals.hpp"

namespace rehearsal::exec {

/// World ranks of a group, `me` not among them, that these steps of it receive from.
[[nodiscard]] std::vector<int> senders_in(std::span<const plan::CollectiveStep>, std::span<const int> group, int me);

/// Used like a Communicator's messages: those of a pair arrive in the order in which they were put.
class OneSided {
 public:
  /// Memory for parts on their way from one rank to another.
  struct ArrivalPlaces {
    std::size_t bytes = plan::kSegmentBytes;  ///< of one; longer messages take several
    std::size_t each = plan::kArrivalPlaces;  ///< from every sender
  };
  /// What a receiver does with what has arrived: `bytes` bytes of the message, from its byte `first` on.
  using Take = std::function<void(const std::byte* arrived, std::size_t first, std::size_t bytes)>;

  /// All ranks together, as is the end. `senders`: the ranks that this one will receive from. Throws EnvironmentFailure where MPI has no
  /// memory that one rank writes while another reads it.
  OneSided(Communicator&, std::span<const int> senders, const ArrivalPlaces&);
  ~OneSided();
  OneSided(const OneSided&) = delete;
  OneSided& operator=(const OneSided&) = delete;

  /// The memory must stay as it is until done().
  [[nodiscard]] Request put(int peer, const void* data, std::size_t bytes);
  /// `take` is called from within done().
  [[nodiscard]] Request receive(int peer, std::size_t bytes, Take take);
  /// Moves everything on without waiting.
  [[nodiscard]] bool done(Request&);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearsal::exec
