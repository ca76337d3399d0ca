#pragma once
// What a rank has under way: pipeline messages and collectives, nonblocking, advanced by polling between kernels.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "exec/comm/communicator.hpp"
#include "plan/collectives/message_arrivals.hpp"

namespace rehearsal::exec {

/// Index of something started; valid until Transfers::forget().
enum class Ticket : std::uint32_t {};

/// Of now_seconds(). A collective starts when those started before it have ended.
struct TransferTimes {
  double start = 0.0, end = 0.0;
};

/// Who takes part, and in which memory. Only real numbers can be added.
struct CollectiveCall {
  const std::vector<plan::CollectiveStep>* steps = nullptr;  ///< of this rank; must outlive the ticket
  std::span<const int> group;                                ///< world ranks; copied
  void* data = nullptr;
  DType dtype = DType::F32;
  /// Elements of `data`; what the steps name behind them is scratch, which is found for them.
  std::int64_t count = std::numeric_limits<std::int64_t>::max();
  graph::LabelKind reduction = graph::LabelKind::Sum;  ///< Max and Min take integers too, LogSumExp takes f64
  bool one_sided = false;                              ///< as its row says; the Transfers have been given memory for it
};

class Transfers {
 public:
  /// Messages longer than `segment_bytes` travel in pieces, and a piece is added while the next one arrives.
  /// `beside`: memory for what collectives need beside their vectors (plan/collectives/message_arrivals.hpp); what does not fit is allocated.
  explicit Transfers(Communicator&, std::size_t segment_bytes = plan::kSegmentBytes, std::span<std::byte> beside = {});
  /// Of all ranks together, before the first one-sided collective: memory for what these ranks put.
  void take_puts_of(std::span<const int> senders);
  /// While anything is under way, its memory is not given back: only right for a rank that is about to end.
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // `what` names the tensor in the message of a stall; its characters must outlive the ticket.
  // Messages of equal peer and tag arrive in the order in which they were sent. Any number may be under way.
  Ticket start_send(int peer, const void* data, std::size_t bytes, int tag, std::string_view what = {});
  Ticket start_receive(int peer, void* data, std::size_t bytes, int tag, std::string_view what = {});
  /// Collectives run one after the other, in the order in which they were started: the same order on every rank of a group.
  /// Sums are taken in an order that depends on the steps alone: the same bits in every run, and on every rank.
  Ticket start_collective(const CollectiveCall&, std::string_view what = {});

  [[nodiscard]] bool done(Ticket) const;
  /// Moves everything on without waiting; cheap enough to call between kernels. True when anything moved.
  bool progress();
  /// For a rank with nothing to compute: moves everything on, yields the core, and throws EnvironmentFailure naming peer and tensor
  /// when nothing has moved for the communicator's stall time.
  void idle();
  void wait(Ticket);
  void wait_all();
  [[nodiscard]] TransferTimes times(Ticket) const;  ///< of a ticket that is done
  /// Bytes that were allocated because `beside` had no room for them.
  [[nodiscard]] std::int64_t allocated_bytes() const;
  /// Invalidates all tickets; all must be done. Once per training step, so that memory does not grow.
  void forget();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearsal::exec
