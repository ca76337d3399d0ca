#pragma once
// Messages and collectives whose time is known when nothing else is on the links, as a library takes it. They begin when all of their ranks
// are there, and are slowed where the links that they cross are wanted by others, too.

#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "costmodel/collective_kind.hpp"
#include "sim/network.hpp"

namespace rehearsal::sim {

/// A stream of a rank that waits.
struct WaitingStream {
  int rank = 0;
  std::size_t stream = 0;
};

/// One rank's call of a collective of its group.
struct PricedCall {
  costmodel::CollectiveKind kind = costmodel::CollectiveKind::AllReduce;
  double bytes = 0;    ///< of the whole vector
  double seconds = 0;  ///< alone
  std::size_t axis = 0;
  std::uint64_t run = 0;  ///< which of the calls of one rank: the same number on all ranks of the group
};

class PricedMessages {
 public:
  PricedMessages(const platforms::Platform& platform, Routes& routes, FairNetwork& network)
      : platform_(platform), routes_(routes), network_(network) {}

  /// A stream of a rank of `group` begins a collective.
  void join(const PricedCall&, const std::vector<int>& group, WaitingStream);
  /// A message that takes `seconds` alone. Its sender's stream is told when it has arrived.
  void send(int from, int to, double bytes, double seconds, WaitingStream);
  /// Who waited for what has ended, in a fixed order.
  [[nodiscard]] std::vector<WaitingStream> ended(std::uint64_t number);
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  /// Links that a group uses: between its ranks of one node, and between nodes.
  struct GroupRoute {
    KnownRoute route;
    std::vector<bool> between;  ///< by link
    std::vector<double> parts;  ///< by link: of what it would carry were it the only way there is
    int per_node = 1, nodes = 1;
  };
  struct Active {
    PricedCall call;
    std::size_t missing = 0;
    std::vector<WaitingStream> waiting;
    std::vector<double> loads;
  };

  std::uint64_t open();
  void start(std::uint64_t number, const KnownRoute&);
  const GroupRoute& links_of(std::size_t axis, const std::vector<int>& group);
  void add_route(GroupRoute&, int from, int to, bool between);

  const platforms::Platform& platform_;
  Routes& routes_;
  FairNetwork& network_;
  std::deque<Active> active_;  ///< a deque: flows point to their loads
  std::vector<std::uint64_t> unused_;
  std::map<std::tuple<std::size_t, int, std::uint64_t>, std::uint64_t> open_;  ///< axis, first rank, run
  std::map<std::pair<std::size_t, int>, GroupRoute> groups_;
  std::int64_t count_ = 0;
};

}  // namespace rehearsal::sim
