#pragma once
// Plays the steps of all ranks of a collective: on data, and on a clock that knows latency, bandwidth and the rate of additions.

#include <functional>
#include <vector>

#include "plan/collectives/collective.hpp"

namespace rehearsal::plan::played {

using Steps = std::vector<std::vector<CollectiveStep>>;

[[nodiscard]] Steps all_steps(const CollectiveRow& row, int ranks, std::int64_t count, int ranks_per_node);

struct Clock {
  std::function<Seconds(int from, int to, Bytes)> message;
  BytesPerSecond reduction;
  double bytes_per_element = 4.0;
};
[[nodiscard]] Clock clock_of(const CollectiveLinks&);

/// Hands messages over in order, blocking on both sides as sendrecv does; messages of one step do not slow each other down.
class Play {
 public:
  Play(const Steps& steps, Clock clock);

  std::vector<std::vector<double>> memory;  ///< by rank; may stay empty when only time matters

  /// Seconds until the last rank is done; negative when ranks wait for each other for ever.
  [[nodiscard]] double run();

 private:
  struct Entry {
    bool sent = true, received = true;
    double received_at = 0;
    std::vector<double> outgoing, incoming;
  };
  struct Rank {
    std::size_t first = 0;       ///< of the steps under way: first ... first + entries.size()
    std::vector<Entry> entries;  ///< empty: done
    double clock = 0.0, ends = 0.0;
  };

  void begin(std::size_t rank);
  bool hand_over(std::size_t rank);
  bool deliver(std::size_t rank, std::size_t entry);
  [[nodiscard]] std::size_t awaiting(std::size_t rank, int from) const;
  void end(std::size_t rank);
  void make_copies(std::size_t rank);

  const Steps& steps_;
  Clock clock_;
  std::vector<Rank> ranks_;
};

/// No rank can be done before its own messages and additions, one step after the other: less than any closed form may promise.
[[nodiscard]] double busiest_rank(const Steps&, const Clock&);

}  // namespace rehearsal::plan::played
