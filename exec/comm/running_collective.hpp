#pragma once
// One collective of one rank under way: plays the steps of a row of plan's collective table with nonblocking messages.

#include <string>

#include "exec/comm/one_sided.hpp"
#include "exec/comm/transfers.hpp"

namespace rehearsal::exec {

/// Shared by the collectives of a Transfers, which run one after the other.
struct CollectiveWorkspace {
  Communicator* world = nullptr;
  OneSided* one_sided = nullptr;  ///< for calls that ask for it
  std::size_t segment_bytes = 0;
  std::span<std::byte> planned;      ///< memory for what follows
  std::vector<std::byte> allocated;  ///< the same where that is too little
  std::byte* scratch = nullptr;      ///< what steps name behind the data
  std::byte* received = nullptr;     ///< what is to be added
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
    int peer = -1;                      ///< in the group
    std::int64_t first = 0, count = 0;  ///< elements
    std::size_t staged = 0;             ///< bytes into CollectiveWorkspace::received, where what is to be added arrives
    bool reduce = false;
  };
  [[nodiscard]] int rank_of(const Piece& piece) const { return group_[static_cast<std::size_t>(piece.peer)]; }
  [[nodiscard]] std::size_t bytes_of(const Piece& piece) const { return static_cast<std::size_t>(piece.count) * element_bytes_; }
  /// Steps from `at_` that begin and end together.
  [[nodiscard]] std::span<const plan::CollectiveStep> under_way() const;
  [[nodiscard]] std::vector<Piece> pieces(const Piece& whole, std::size_t segment_bytes) const;
  [[nodiscard]] std::byte* address(CollectiveWorkspace&, std::int64_t element) const;
  void make_copies(CollectiveWorkspace&);
  void post(CollectiveWorkspace&);
  /// Where pieces that are to be added arrive: one behind the other, or, where they are taken in order, in a few places, one after the
  /// other.
  void place_pieces();
  void post_receives(CollectiveWorkspace&);
  [[nodiscard]] Request sent(CollectiveWorkspace&, const Piece&) const;
  [[nodiscard]] Request received(CollectiveWorkspace&, Piece&) const;
  [[nodiscard]] bool ended(CollectiveWorkspace&, Piece&) const;
  [[nodiscard]] bool may_be_taken(std::size_t piece) const;
  void take(CollectiveWorkspace&, const Piece&);

  CollectiveCall call_;
  std::vector<int> group_;
  std::size_t element_bytes_, at_ = 0;
  int me_ = -1;                          ///< in the group
  std::vector<Piece> sends_, receives_;  ///< of the steps under way, in order
  std::size_t sent_ = 0, taken_ = 0;     ///< leading ones that are done
  std::size_t posted_ = 0, places_ = 0;  ///< receives that were posted; that may be posted and not yet taken
  plan::Overlap overlap_;
};

}  // namespace rehearsal::exec
