#include "plan/collectives/packed_trees.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

constexpr std::int64_t kPackedTreesChunkElements = 16384;
constexpr std::int64_t kPackedTreesMostChunks = 32;
constexpr double kPackedTreesAssumedElementBytes = 4;  ///< the closed form knows bytes, the steps elements
constexpr int kRounds = 600;                           ///< of the packing
constexpr double kStep = 0.04;                         ///< by how much a used link becomes longer; smaller packs tighter in more rounds
constexpr double kSmallestShare = 0.02;                ///< trees below cost more messages than they carry
constexpr int kMostRanks = 8;  ///< of the table's row: larger groups are nodes of equal devices, for which there are rings

int packed_trees_chunks_of(std::int64_t count) {
  return static_cast<int>(std::clamp<std::int64_t>(count / kPackedTreesChunkElements, 1, kPackedTreesMostChunks));
}

using Edge = std::pair<int, int>;
using Edges = std::vector<Edge>;

/// Prim's algorithm; empty when the links do not reach every rank.
Edges shortest_tree(int ranks, const std::vector<double>& length) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<double> best(n, kFar);
  std::vector<int> from(n, -1);
  std::vector<bool> in(n, false);
  best[0] = 0;
  Edges edges;
  for (std::size_t round = 0; round < n; ++round) {
    std::size_t next = n;
    for (std::size_t r = 0; r < n; ++r)
      if (!in[r] && best[r] < kFar && (next == n || best[r] < best[next])) next = r;
    if (next == n) return {};
    in[next] = true;
    if (from[next] >= 0) edges.push_back(std::minmax(from[next], static_cast<int>(next)));
    for (std::size_t r = 0; r < n; ++r)
      if (!in[r] && length[next * n + r] < best[r]) best[r] = length[next * n + r], from[r] = static_cast<int>(next);
  }
  std::ranges::sort(edges);
  return edges;
}

/// How often each tree is chosen when every choice takes the shortest one and then makes its links longer, the more so the thinner they
/// are: multiplicative weights, whose average packs the links almost as full as any packing does (Blink, section 3.2.1).
std::map<Edges, int> packed(const Wiring& w) {
  std::vector<double> length;
  for (double c : w.capacity) length.push_back(c > 0 ? 1 / c : std::numeric_limits<double>::infinity());
  const double thickest = *std::ranges::max_element(w.capacity);
  std::map<Edges, int> chosen;
  for (int round = 0; round < kRounds; ++round) {
    const auto tree = shortest_tree(w.ranks, length);
    if (tree.empty()) throw Refusal("packed trees: the links do not connect all " + std::to_string(w.ranks) + " ranks");
    ++chosen[tree];
    for (const auto& [a, b] : tree)
      for (const auto at : {a * w.ranks + b, b * w.ranks + a})
        length[static_cast<std::size_t>(at)] *= 1 + kStep * thickest / w.capacity[static_cast<std::size_t>(at)] / w.ranks;
  }
  return chosen;
}

/// Distances from a rank over a tree's edges, with the parents on the way.
struct Rooted {
  std::vector<int> parent, depth;
  int levels = 0;
};
Rooted rooted(const Edges& edges, int ranks, int root) {
  Rooted r{std::vector<int>(static_cast<std::size_t>(ranks), -1), std::vector<int>(static_cast<std::size_t>(ranks), -1)};
  std::vector<int> reached{root};
  r.depth[static_cast<std::size_t>(root)] = 0;
  for (std::size_t i = 0; i < reached.size(); ++i)
    for (const auto& [a, b] : edges) {
      if (a != reached[i] && b != reached[i]) continue;
      const int other = a == reached[i] ? b : a;
      auto& depth = r.depth[static_cast<std::size_t>(other)];
      if (depth >= 0) continue;
      depth = r.depth[static_cast<std::size_t>(reached[i])] + 1;
      r.parent[static_cast<std::size_t>(other)] = reached[i];
      r.levels = std::max(r.levels, depth);
      reached.push_back(other);
    }
  return r;
}

PackedTrees::Tree lowest_tree(const Edges& edges, int ranks, double share) {
  PackedTrees::Tree tree;
  tree.share = share;
  tree.levels = ranks;
  for (int root = 0; root < ranks; ++root) {
    auto r = rooted(edges, ranks, root);
    if (r.levels >= tree.levels) continue;
    tree.root = root, tree.levels = r.levels, tree.parent = std::move(r.parent), tree.depth = std::move(r.depth);
  }
  tree.height.assign(static_cast<std::size_t>(ranks), 0);
  for (int level = tree.levels; level > 0; --level)
    for (std::size_t v = 0; v < tree.depth.size(); ++v) {
      if (tree.depth[v] != level) continue;
      auto& above = tree.height[static_cast<std::size_t>(tree.parent[v])];
      above = std::max(above, tree.height[v] + 1);
    }
  return tree;
}

/// Bytes per byte of the vector that each directed link carries; up the tree and down again use the two directions alike.
std::map<Edge, double> loads(const std::vector<PackedTrees::Tree>& trees) {
  std::map<Edge, double> load;
  for (const auto& tree : trees)
    for (int v = 0; v < static_cast<int>(tree.parent.size()); ++v)
      if (const int up = tree.parent[static_cast<std::size_t>(v)]; up >= 0) load[std::minmax(v, up)] += tree.share;
  return load;
}

}  // namespace

double Wiring::between(int a, int b) const { return capacity[static_cast<std::size_t>(a * ranks + b)]; }

Wiring dgx1_wiring(const std::vector<int>& gpus) {
  struct Link {
    int a, b, lanes;
  };
  static constexpr std::array kLinks{Link{0, 1, 1}, Link{0, 2, 1}, Link{0, 3, 2}, Link{0, 4, 2}, Link{1, 2, 2}, Link{1, 3, 1},
                                     Link{1, 5, 2}, Link{2, 3, 2}, Link{2, 6, 1}, Link{3, 7, 1}, Link{4, 5, 1}, Link{4, 6, 1},
                                     Link{4, 7, 2}, Link{5, 6, 2}, Link{5, 7, 1}, Link{6, 7, 2}};
  Wiring w{static_cast<int>(gpus.size()), std::vector<double>(gpus.size() * gpus.size(), 0.0)};
  for (std::size_t a = 0; a < gpus.size(); ++a)
    for (std::size_t b = 0; b < gpus.size(); ++b)
      for (const auto& link : kLinks)
        if (std::pair{link.a, link.b} == std::pair{std::min(gpus[a], gpus[b]), std::max(gpus[a], gpus[b])})
          w.capacity[a * gpus.size() + b] = link.lanes;
  return w;
}

PackedTrees::PackedTrees(const Wiring& wiring) : wiring_(wiring) {
  if (wiring.ranks < 2) return;
  auto chosen = packed(wiring);
  std::erase_if(chosen, [](const auto& tree) { return tree.second < kSmallestShare * kRounds; });
  if (chosen.empty()) chosen = {*packed(wiring).begin()};
  double total = 0;
  for (const auto& [edges, times] : chosen) total += times;
  for (const auto& [edges, times] : chosen) trees_.push_back(lowest_tree(edges, wiring.ranks, times / total));
}

double PackedTrees::rate() const {
  double fullest = 0;
  for (const auto& [edge, load] : loads(trees_)) fullest = std::max(fullest, load / wiring_.between(edge.first, edge.second));
  return 1 / fullest;
}

int PackedTrees::slots(int chunks) const {
  int levels = 0;
  for (const auto& tree : trees_) levels = std::max(levels, tree.levels);
  return trees_.empty() ? 0 : 2 * levels + chunks - 1;
}

std::vector<CollectiveStep> PackedTrees::steps(int rank, std::int64_t count) const {
  const int chunks = packed_trees_chunks_of(count);
  std::map<int, std::vector<CollectiveStep>> slots;
  double begin = 0;
  for (const auto& tree : trees_) {
    const auto edge_of = [&](double at) { return static_cast<std::int64_t>(std::llround(at * static_cast<double>(count))); };
    const Range share{edge_of(begin), &tree == &trees_.back() ? count : edge_of(begin + tree.share)};
    begin += tree.share;
    for (int v = 0; v < wiring_.ranks; ++v) {
      const int up = tree.parent[static_cast<std::size_t>(v)];
      if (up < 0 || (rank != v && rank != up)) continue;
      for (int c = 0; c < chunks; ++c) {
        const Range chunk = part(share, chunks, c);
        const int going_up = tree.height[static_cast<std::size_t>(v)] + c,
                  going_down = tree.levels + tree.depth[static_cast<std::size_t>(v)] - 1 + c;
        slots[going_up].push_back(rank == v ? sending(up, chunk) : receiving(v, chunk, true));
        slots[going_down].push_back(rank == v ? receiving(up, chunk, false) : sending(v, chunk));
      }
    }
  }
  std::vector<CollectiveStep> steps;
  for (const auto& [slot, messages] : slots) {
    const auto before = steps.size();
    for (const auto& message : messages) add_step(steps, message);
    for (auto i = before; i + 1 < steps.size(); ++i) steps[i].with_next = true;
  }
  return steps;
}

double PackedTrees::most_added() const {
  std::vector<double> added(static_cast<std::size_t>(wiring_.ranks), 0.0);
  for (const auto& tree : trees_)
    for (const int up : tree.parent)
      if (up >= 0) added[static_cast<std::size_t>(up)] += tree.share;
  return *std::ranges::max_element(added);
}

Seconds PackedTrees::slots_time(Bytes size, double load, const Costs& costs) const {
  const int chunks = packed_trees_chunks_of(static_cast<std::int64_t>(size.value() / kPackedTreesAssumedElementBytes));
  const Bytes chunk = size / static_cast<double>(chunks);
  return static_cast<double>(slots(chunks)) * (costs.latency + chunk * load / costs.unit + chunk * most_added() / costs.reduction);
}

Seconds PackedTrees::time(Bytes size, const Costs& costs) const { return trees_.empty() ? Seconds{} : slots_time(size, 1 / rate(), costs); }

Seconds PackedTrees::time_with_ports(Bytes size, const Costs& costs) const {
  if (trees_.empty()) return {};
  std::vector<double> port(static_cast<std::size_t>(wiring_.ranks), 0.0), messages(port);
  for (const auto& [edge, load] : loads(trees_))
    for (const int end : {edge.first, edge.second}) port[static_cast<std::size_t>(end)] += load;
  for (const auto& tree : trees_)
    for (std::size_t v = 0; v < tree.parent.size(); ++v)
      if (const int up = tree.parent[v]; up >= 0) ++messages[v], ++messages[static_cast<std::size_t>(up)];
  Costs in_turn = costs;
  in_turn.latency = costs.latency * *std::ranges::max_element(messages);
  return slots_time(size, *std::ranges::max_element(port), in_turn);
}

namespace {

/// The first GPUs of a DGX-1.
Wiring usual_wiring(int ranks) {
  std::vector<int> gpus(static_cast<std::size_t>(ranks));
  std::iota(gpus.begin(), gpus.end(), 0);
  return dgx1_wiring(gpus);
}

/// Packed once: lowering asks for every message how long it would take.
const PackedTrees& usual_trees(int ranks) {
  static const auto all = [] {
    std::vector<PackedTrees> trees;
    for (int n = 0; n <= kMostRanks; ++n) trees.emplace_back(usual_wiring(n));
    return trees;
  }();
  return all[static_cast<std::size_t>(ranks)];
}

std::vector<CollectiveStep> packed_tree_steps(int rank, int ranks, std::int64_t count, int per_node) {
  if (ranks > kMostRanks) return hierarchical_all_reduce().steps(rank, ranks, count, per_node);
  return usual_trees(ranks).steps(rank, count);
}

Seconds packed_trees_time_of(int ranks, Bytes size, const CollectiveLinks& links) {
  if (ranks > kMostRanks) return hierarchical_all_reduce().closed_form(ranks, size, links);
  const bool inner = one_node(ranks, links);
  const Seconds latency = inner ? links.inner_latency : std::max(links.inner_latency, links.outer_latency);
  // Ranks of a node send at a time, and share its bus and its cards.
  const auto within = std::min(links.inner_bandwidth, links.node_inner / links.ranks_per_node);
  const auto bandwidth = inner ? within : std::min({within, links.outer_bandwidth, links.node_outer / links.ranks_per_node});
  return usual_trees(ranks).time_with_ports(size, {latency, bandwidth, links.reduction});
}

}  // namespace

CollectiveRow packed_trees_all_reduce() {
  return {
      "packed-trees",
      CollectiveKind::AllReduce,
      "spanning trees packed into the links of a DGX-1's first GPUs, each with its share of the vector (Wang et al., Blink, MLSys 2020); "
      "above 8 ranks hierarchical",
      packed_tree_steps,
      packed_trees_time_of,
      nullptr,
      false};
}

}  // namespace rehearsal::plan
