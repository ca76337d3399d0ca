#pragma once
// One collective of one rank under way: plays the steps of a row of plan's collective table with nonblocking messages.

#include <string>

#include "exec/comm/transfers.hpp"

namespace rehearsal::exec {

/// Shared by the collectives of a Transfers, which run one after the other.
struct CollectiveWorkspace {
  Communicator* world = nullptr;
  std::size_t segment_bytes = 0;
  std::vector<std::byte> received;  ///< what is to be added
};

class RunningCollective {
 public:
  /// Throws InternalError when a type cannot be added: only f32 and f64 can.
  explicit RunningCollective(const CollectiveCall&);
  /// Posts the messages of the first step; at once at its end when there is none.
  void begin(CollectiveWorkspace&);
  /// Moves on as far as messages have come. True when anything moved.
  bool advance(CollectiveWorkspace&);
  [[nodiscard]] bool done() const { return at_ == call_.steps->size(); }
  /// "rank 3 to send its part (step 2 of 6)"
  [[nodiscard]] std::string awaited() const;

 private:
  struct Piece {
    Request request;
    std::int64_t first = 0, count = 0;  ///< elements
  };
  struct Overlap {
    bool any = false, same = false;  ///< of what a step sends and receives
  };
  [[nodiscard]] const plan::CollectiveStep& step() const { return (*call_.steps)[at_]; }
  [[nodiscard]] std::vector<Piece> pieces(std::int64_t first, std::int64_t count, std::size_t segment_bytes) const;
  void post(CollectiveWorkspace&);
  [[nodiscard]] bool may_be_taken(std::size_t piece) const;
  void take(const CollectiveWorkspace&, const Piece&);

  CollectiveCall call_;
  std::vector<int> group_;
  std::size_t element_bytes_, at_ = 0;
  std::vector<Piece> sends_, receives_;  ///< of this step, in order
  std::size_t sent_ = 0, taken_ = 0;     ///< leading ones that are done
  Overlap overlap_;
};

}  // namespace rehearsal::exec
