#include <utility>

#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

int wrapped(int rank, int ranks) { return (rank % ranks + ranks) % ranks; }

/// Where the blocks of one rank lie: what it sends by destination, then what it receives by source.
struct BlockPlaces {
  int rank, ranks;
  std::int64_t count;
  [[nodiscard]] std::int64_t own() const { return block(count, ranks, rank).count(); }
  [[nodiscard]] Range to(int other) const { return block(count, ranks, other); }
  [[nodiscard]] Range from(int other) const { return {count + other * own(), count + (other + 1) * own()}; }
  [[nodiscard]] std::int64_t end() const { return count + ranks * own(); }
};

std::vector<CollectiveStep> pairwise_steps_of_all_to_all(int rank, int ranks, std::int64_t count, int) {
  const BlockPlaces places{rank, ranks, count};
  std::vector<CollectiveStep> steps;
  add_step(steps, copying(rank, places.to(rank), places.from(rank)));
  for (int s = 1; s < ranks; ++s) {
    const int to = wrapped(rank + s, ranks), from = wrapped(rank - s, ranks);
    add_step(steps, exchange(to, places.to(to), from, places.from(from), false));
  }
  return steps;
}

std::int64_t pairwise_memory(int rank, int ranks, std::int64_t count) { return BlockPlaces{rank, ranks, count}.end(); }

/// (P-1)(a + S/(P B)). The last rank of a node has a message across nodes in every step.
Seconds pairwise_time_of_all_to_all(int ranks, Bytes size, const CollectiveLinks& links) {
  const Bytes piece = size / static_cast<double>(ranks);
  return all_distances(ranks, piece, links);
}

/// Bruck's algorithm: the blocks that travel over the distance 2^k are those whose way, as a number, has this bit. A block of way j was
/// handed over in earlier rounds for the lower bits of j, so the holder's rank says whose it is and how long.
class Bruck {
 public:
  Bruck(int rank, int ranks, std::int64_t count) : places_{rank, ranks, count}, free_(places_.end()) {
    for (int way = 0; way < ranks; ++way) held_.push_back(places_.to(wrapped(rank + way, ranks)));
    add_step(steps_, copying(rank, places_.to(rank), places_.from(rank)));
    for (int distance = 1; distance < ranks; distance *= 2) add_round(distance);
  }
  [[nodiscard]] std::vector<CollectiveStep> take_steps() { return std::move(steps_); }
  [[nodiscard]] std::int64_t memory() const { return free_; }

 private:
  /// Elements of the block of `way` that `holder` holds before the round of this distance.
  [[nodiscard]] std::int64_t count(int holder, int way, int distance) const {
    return places_.to(wrapped(holder - (way & (distance - 1)) + way, places_.ranks)).count();
  }

  template <class Use>
  void each_way(int distance, const Use& use) const {
    for (int way = distance; way < places_.ranks; ++way)
      if ((way & distance) != 0) use(way);
  }

  void add_round(int distance) {
    const int to = wrapped(places_.rank + distance, places_.ranks), from = wrapped(places_.rank - distance, places_.ranks);
    Range packed{free_, free_};
    each_way(distance, [&](int way) {
      const Range held = held_[static_cast<std::size_t>(way)];
      add_step(steps_, copying(places_.rank, held, {packed.end, packed.end + held.count()}));
      packed.end += held.count();
    });
    Range arrived{packed.end, packed.end};
    each_way(distance, [&](int way) { arrived.end += count(from, way, distance); });
    free_ = arrived.end;
    add_step(steps_, exchange(to, packed, from, arrived, false));
    keep(distance, from, arrived.begin);
  }

  /// Blocks whose way has no higher bit have come home.
  void keep(int distance, int from, std::int64_t at) {
    each_way(distance, [&](int way) {
      const Range held{at, at + count(from, way, distance)};
      at = held.end;
      held_[static_cast<std::size_t>(way)] = held;
      if (way < 2 * distance) add_step(steps_, copying(places_.rank, held, places_.from(wrapped(places_.rank - way, places_.ranks))));
    });
  }

  BlockPlaces places_;
  std::int64_t free_;
  std::vector<Range> held_;  ///< by way: how many ranks further its destination is from its source
  std::vector<CollectiveStep> steps_;
};

std::vector<CollectiveStep> bruck_steps_of_all_to_all(int rank, int ranks, std::int64_t count, int) {
  return Bruck(rank, ranks, count).take_steps();
}
std::int64_t bruck_exchange_memory(int rank, int ranks, std::int64_t count) { return Bruck(rank, ranks, count).memory(); }

/// Over k < log2 P: a + n S/(P B), n being how many numbers below P have bit k.
Seconds bruck_time_of_all_to_all(int ranks, Bytes size, const CollectiveLinks& links) {
  const Bytes piece = size / static_cast<double>(ranks);
  Seconds total;
  for (int distance = 1; distance < ranks; distance *= 2) {
    int blocks = 0;
    for (int way = distance; way < ranks; ++way) blocks += (way & distance) != 0 ? 1 : 0;
    total += slowest_message(ranks, piece * static_cast<double>(blocks), links, distance);
  }
  return total;
}

}  // namespace

CollectiveRow pairwise_all_to_all() {
  return {"pairwise",
          CollectiveKind::AllToAll,
          "in step s each rank sends to the one s further on: every byte moves once (Thakur et al., IJHPCA 2005, section 4.3)",
          pairwise_steps_of_all_to_all,
          pairwise_time_of_all_to_all,
          pairwise_memory};
}

CollectiveRow bruck_all_to_all() {
  return {"bruck",
          CollectiveKind::AllToAll,
          "blocks travel by the bits of their way, bundled: few messages, bytes move several times (Bruck et al., IEEE TPDS 8(11) 1997)",
          bruck_steps_of_all_to_all,
          bruck_time_of_all_to_all,
          bruck_exchange_memory};
}

}  // namespace rehearsal::plan
