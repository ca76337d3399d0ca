#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

int at(const Ring& ring, int position) { return ring.first + ring.stride * ((position % ring.size + ring.size) % ring.size); }

/// Sends block `position`, receives the one before it: what a ring does in every step.
CollectiveStep pass_on(const Ring& ring, Range range, int position) {
  const auto index = [&](int p) { return (p % ring.size + ring.size) % ring.size; };
  const auto own = [&](int p) { return part(range, ring.size, index(p)); };
  return exchange(at(ring, ring.me + 1), own(position), at(ring, ring.me - 1), own(position - 1), false);
}

std::vector<CollectiveStep> reduce_scatter_steps(int rank, int ranks, std::int64_t count, int) {
  std::vector<CollectiveStep> steps;
  add_ring_reduce_scatter(steps, {0, 1, ranks, rank}, {0, count});
  return steps;
}

std::vector<CollectiveStep> all_gather_steps(int rank, int ranks, std::int64_t count, int) {
  std::vector<CollectiveStep> steps;
  add_ring_all_gather(steps, {0, 1, ranks, rank}, {0, count});
  return steps;
}

std::vector<CollectiveStep> all_reduce_steps(int rank, int ranks, std::int64_t count, int) {
  std::vector<CollectiveStep> steps;
  add_ring_reduce_scatter(steps, {0, 1, ranks, rank}, {0, count});
  add_ring_all_gather(steps, {0, 1, ranks, rank}, {0, count});
  return steps;
}

/// 2(P-1)(a + S/(P B)) + (P-1) g S/P
Seconds all_reduce_time_of_ring(int ranks, Bytes size, const CollectiveLinks& links) {
  return ring_reduce_scatter_time(ranks, size, links) + ring_all_gather_time(ranks, size, links);
}

}  // namespace

void add_ring_reduce_scatter(std::vector<CollectiveStep>& steps, const Ring& ring, Range range) {
  for (int s = 1; s < ring.size; ++s) {
    CollectiveStep step = pass_on(ring, range, ring.me - s);
    step.reduce = true;
    add_step(steps, step);
  }
}

void add_ring_all_gather(std::vector<CollectiveStep>& steps, const Ring& ring, Range range) {
  for (int s = 0; s + 1 < ring.size; ++s) add_step(steps, pass_on(ring, range, ring.me - s));
}

std::vector<CollectiveStep> all_reduce_on(std::span<const RingLevel> levels, int rank, std::int64_t count) {
  struct OnLevel {
    Ring ring;
    Range range;
  };
  std::vector<OnLevel> rings;
  Range mine{0, count};
  for (const auto& [size, stride] : levels) {
    const int me = rank / stride % size;
    rings.push_back({{rank - me * stride, stride, size, me}, mine});
    mine = part(mine, size, me);
  }
  std::vector<CollectiveStep> steps;
  for (const auto& [ring, range] : rings) add_ring_reduce_scatter(steps, ring, range);
  for (auto r = rings.rbegin(); r != rings.rend(); ++r) add_ring_all_gather(steps, r->ring, r->range);
  return steps;
}

Seconds ring_reduce_scatter_time(int ranks, Bytes size, const CollectiveLinks& links) {
  const Bytes piece = size / static_cast<double>(ranks);
  return static_cast<double>(ranks - 1) * (slowest_message(ranks, piece, links) + piece / links.reduction);
}

Seconds ring_all_gather_time(int ranks, Bytes size, const CollectiveLinks& links) {
  return static_cast<double>(ranks - 1) * slowest_message(ranks, size / static_cast<double>(ranks), links);
}

CollectiveRow ring_all_reduce() {
  return {"ring", CollectiveKind::AllReduce,
          "blocks are added around a ring, then passed around it (Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms, JPDC 2009)",
          all_reduce_steps, all_reduce_time_of_ring};
}

CollectiveRow ring_reduce_scatter() {
  return {"ring", CollectiveKind::ReduceScatter, "blocks are added around a ring (Patarasuk, Yuan, JPDC 2009)", reduce_scatter_steps,
          ring_reduce_scatter_time};
}

CollectiveRow ring_all_gather() {
  return {"ring", CollectiveKind::AllGather, "blocks are passed around a ring (Patarasuk, Yuan, JPDC 2009)", all_gather_steps,
          ring_all_gather_time};
}

}  // namespace rehearsal::plan
