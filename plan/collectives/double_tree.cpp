// Two binary trees over the same ranks, each carrying half of the vector in chunks, such that no rank passes on in both. Their edges have
// two colours, used in turn: at any time a rank sends one message and receives one, so both directions of its link stay busy.
#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

constexpr int kTrees = 2;
constexpr std::int64_t kDoubleTreeChunkElements = 8192;  ///< of a half; shorter ones cost more latency than they save
constexpr std::int64_t kDoubleTreeMostChunks = 32;
constexpr double kDoubleTreeAssumedElementBytes = 4;  ///< the closed form knows bytes, the steps elements

int double_tree_chunks_of(std::int64_t count) {
  return static_cast<int>(std::clamp<std::int64_t>(count / (kTrees * kDoubleTreeChunkElements), 1, kDoubleTreeMostChunks));
}

/// The in-order binary tree over 1 ... n whose leaves are the odd labels; 0 above its root.
int parent_label(int label, int n) {
  const int bit = label & -label;
  const int up = (label ^ bit) | (bit << 1);
  return up <= n ? up : label ^ bit;
}

/// Rank 0 is above both trees; ranks 1 ... P-1 are labels of the first one, and shifted or mirrored labels of the second one, so that
/// whoever passes on in one is a leaf in the other.
class TwoTrees {
 public:
  explicit TwoTrees(int ranks) : n_(ranks - 1) {
    for (int tree = 0; tree < kTrees; ++tree) {
      auto& parents = parent_[static_cast<std::size_t>(tree)];
      parents.assign(static_cast<std::size_t>(ranks), 0);
      for (int label = 1; label <= n_; ++label) {
        const int up = parent_label(label, n_);
        parents[static_cast<std::size_t>(rank_of(tree, label))] = up == 0 ? 0 : rank_of(tree, up);
      }
    }
    colour();
    for (int tree = 0; tree < kTrees; ++tree) schedule(tree);
  }

  [[nodiscard]] int parent(int tree, int rank) const { return parent_[static_cast<std::size_t>(tree)][static_cast<std::size_t>(rank)]; }
  /// When chunk 0 travels from the parent to this rank in a broadcast; chunk i follows 2 i later.
  [[nodiscard]] int first_slot(int tree, int rank) const { return first_[static_cast<std::size_t>(tree)][static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int slots(int chunks) const {
    int last = -1;
    for (const auto& tree : first_)
      for (std::size_t rank = 1; rank < tree.size(); ++rank) last = std::max(last, tree[rank]);
    return last < 0 ? 0 : last + 1 + 2 * (chunks - 1);
  }

 private:
  [[nodiscard]] int rank_of(int tree, int label) const {
    if (tree == 0) return label;
    return n_ % 2 == 0 ? n_ + 1 - label : label % n_ + 1;
  }

  /// An edge is named by its tree and lower end. Edges into one rank differ in colour, and edges out of one rank do. Walking along edges
  /// that must differ, ends and beginnings alternate, so every cycle has an even length and two colours are enough.
  void colour() {
    std::map<std::pair<int, int>, std::vector<std::pair<int, int>>> out;  // by (parent, tree; rank 0 sends in both with one port)
    for (int tree = 0; tree < kTrees; ++tree) {
      colour_[static_cast<std::size_t>(tree)].assign(static_cast<std::size_t>(n_ + 1), -1);
      for (int rank = 1; rank <= n_; ++rank) out[{parent(tree, rank), 0}].push_back({tree, rank});
    }
    const auto sibling = [&](std::pair<int, int> edge) {
      for (const auto& other : out[{parent(edge.first, edge.second), 0}])
        if (other != edge) return other;
      return std::pair{-1, -1};
    };
    for (int rank = 1; rank <= n_; ++rank)
      for (int tree = 0; tree < kTrees; ++tree) {
        std::vector<std::pair<std::pair<int, int>, int>> pending{{{tree, rank}, 0}};
        while (!pending.empty()) {
          const auto [edge, wanted] = pending.back();
          pending.pop_back();
          if (edge.first < 0 || colour_of(edge) >= 0) continue;
          colour_[static_cast<std::size_t>(edge.first)][static_cast<std::size_t>(edge.second)] = wanted;
          pending.push_back({{1 - edge.first, edge.second}, 1 - wanted});
          pending.push_back({sibling(edge), 1 - wanted});
        }
      }
  }
  [[nodiscard]] int colour_of(std::pair<int, int> edge) const {
    return colour_[static_cast<std::size_t>(edge.first)][static_cast<std::size_t>(edge.second)];
  }

  void schedule(int tree) {
    auto& first = first_[static_cast<std::size_t>(tree)];
    first.assign(static_cast<std::size_t>(n_ + 1), -1);
    const std::function<int(int)> slot = [&](int rank) {
      auto& known = first[static_cast<std::size_t>(rank)];
      if (rank == 0 || known >= 0) return known;
      known = slot(parent(tree, rank)) + 1;
      if (known % 2 != colour_of({tree, rank})) ++known;
      return known;
    };
    for (int rank = 1; rank <= n_; ++rank) slot(rank);
  }

  int n_;
  std::array<std::vector<int>, kTrees> parent_, colour_, first_;  ///< by rank
};

/// Messages of one rank in a broadcast, by slot.
std::map<int, CollectiveStep> broadcast_slots(int rank, int ranks, std::int64_t count) {
  const TwoTrees trees(ranks);
  const int chunks = double_tree_chunks_of(count);
  std::map<int, CollectiveStep> slots;
  for (int tree = 0; tree < kTrees; ++tree)
    for (int lower = 1; lower < ranks; ++lower) {
      const int upper = trees.parent(tree, lower);
      if (rank != lower && rank != upper) continue;
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const Range range = part(part({0, count}, kTrees, tree), chunks, chunk);
        auto& step = slots[trees.first_slot(tree, lower) + 2 * chunk];
        if (rank == upper)
          step.send_to = lower, step.send_first = range.begin, step.send_count = range.count();
        else
          step.receive_from = upper, step.receive_first = range.begin, step.receive_count = range.count();
      }
    }
  return slots;
}

/// What is received is sent, and the other way round: a broadcast backwards is a reduce.
CollectiveStep turned(const CollectiveStep& step) {
  CollectiveStep back;
  back.send_to = step.receive_from, back.send_first = step.receive_first, back.send_count = step.receive_count;
  back.receive_from = step.send_to, back.receive_first = step.send_first, back.receive_count = step.send_count;
  back.reduce = step.send_to >= 0;
  return back;
}

std::vector<CollectiveStep> double_tree_steps(int rank, int ranks, std::int64_t count, int) {
  const auto slots = broadcast_slots(rank, ranks, count);
  std::vector<CollectiveStep> steps;
  for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) add_step(steps, turned(slot->second));
  for (const auto& [slot, step] : slots) add_step(steps, step);
  return steps;
}

/// What messages of a slot take, which are those of one colour in both trees.
struct SlotTimes {
  Seconds of_first;  ///< on a chunk's way through all levels, in the mean over their lengths
  Seconds of_more;   ///< where all lengths are under way at a time
};

/// What messages of a slot share of the network: a tree has an edge 2^k long for every 2^(k+1) ranks.
SlotTimes slot_times(int ranks, Bytes chunk, const CollectiveLinks& links) {
  const Seconds alone = slowest_message(ranks, chunk, links, links.ranks_per_node);
  if (links.around.empty()) return {alone, alone};
  Seconds longest, sum;
  double shared = 0;  // seconds for a byte
  for (std::size_t k = 0; k < links.around.size(); ++k) {
    longest = std::max(longest, links.around[k].latency);
    sum += links.around[k].latency;
    shared += 1 / (links.around[k].bandwidth.value() * static_cast<double>(std::int64_t{2} << k));
  }
  const Seconds moved(chunk.value() * shared), mean = sum / static_cast<double>(links.around.size());
  return {std::max(alone, mean + moved), std::max(alone, longest + moved)};
}

/// D slots of a chunk, there and back: D (2 a + 2 c/B + g c) with c = S/(2 k) for k chunks of each half, and D = last first slot + 1 +
/// 2(k-1), at most 2 ceil(log2 P) + 2(k-1). A rank that has nothing to do in a slot may run ahead.
Seconds double_tree_time_of(int ranks, Bytes size, const CollectiveLinks& links) {
  const int chunks = double_tree_chunks_of(static_cast<std::int64_t>(size.value() / kDoubleTreeAssumedElementBytes));
  const double first = TwoTrees(ranks).slots(1), more = ranks > 1 ? 2.0 * (chunks - 1) : 0;
  const Bytes chunk = size / static_cast<double>(kTrees * chunks);
  const auto slot = slot_times(ranks, chunk, links);
  return 2 * first * slot.of_first + 2 * more * slot.of_more + (first + more) * (chunk / links.reduction);
}

}  // namespace

CollectiveRow double_tree_all_reduce() {
  return {
      "double-tree",
      CollectiveKind::AllReduce,
      "each half of the vector goes up and down its own binary tree in chunks, a leaf of one tree passing on in the other (Sanders, Speck, "
      "Traeff: Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel Computing 35, 2009)",
      double_tree_steps,
      double_tree_time_of,
      nullptr,
      false};
}

}  // namespace rehearsal::plan
