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
constexpr int kMostPackedRanks =
    kMostKnownMembers;  ///< of the table's row: larger groups are nodes of equal devices, for which there are rings

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

/// The slots in which the first chunk moves between `rank` and its parent.
int going_up(const PackedTrees::Tree& tree, int rank) { return tree.height[static_cast<std::size_t>(rank)]; }
int going_down(const PackedTrees::Tree& tree, int rank) { return tree.levels + tree.depth[static_cast<std::size_t>(rank)] - 1; }

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
        slots[going_up(tree, v) + c].push_back(rank == v ? sending(up, chunk) : receiving(v, chunk, true));
        slots[going_down(tree, v) + c].push_back(rank == v ? receiving(up, chunk, false) : sending(v, chunk));
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

std::set<int> PackedTrees::changes(int chunks) const {
  std::set<int> slots;
  for (const auto& tree : trees_)
    for (int v = 0; v < wiring_.ranks; ++v)
      if (tree.parent[static_cast<std::size_t>(v)] >= 0)
        for (const int first : {going_up(tree, v), going_down(tree, v)}) slots.insert({first, first + chunks});
  return slots;
}

std::vector<PackedTrees::Message> PackedTrees::at_work(int slot, int chunks) const {
  const auto ranks = static_cast<std::size_t>(wiring_.ranks);
  std::vector<double> up(ranks * ranks, 0.0), down(up);
  for (const auto& tree : trees_)
    for (int v = 0; v < wiring_.ranks; ++v) {
      const int above = tree.parent[static_cast<std::size_t>(v)];
      if (above < 0) continue;
      const auto moves = [&](int first) { return first <= slot && slot < first + chunks; };
      if (moves(going_up(tree, v))) up[static_cast<std::size_t>(v * wiring_.ranks + above)] += tree.share;
      if (moves(going_down(tree, v))) down[static_cast<std::size_t>(above * wiring_.ranks + v)] += tree.share;
    }
  std::vector<Message> messages;
  for (int from = 0; from < wiring_.ranks; ++from)
    for (int to = 0; to < wiring_.ranks; ++to) {
      const auto pair = static_cast<std::size_t>(from * wiring_.ranks + to);
      if (up[pair] > 0) messages.push_back({from, to, up[pair], true});
      if (down[pair] > 0) messages.push_back({from, to, down[pair], false});
    }
  return messages;
}

Seconds PackedTrees::time(Bytes size, const SlotEnds& slot_ends) const {
  if (trees_.empty()) return {};
  const int chunks = packed_trees_chunks_of(static_cast<std::int64_t>(size.value() / kPackedTreesAssumedElementBytes));
  std::vector<Seconds> come(static_cast<std::size_t>(wiring_.ranks)), next(come);
  int slot = 0;
  for (const int end : changes(chunks)) {
    const auto messages = slot < end ? at_work(slot, chunks) : std::vector<Message>{};
    const auto ends = slot_ends(messages, size / static_cast<double>(chunks));
    for (; slot < end; ++slot) {
      for (std::size_t m = 0; m < messages.size(); ++m) {
        const auto from = static_cast<std::size_t>(messages[m].from), to = static_cast<std::size_t>(messages[m].to);
        const Seconds begin = std::max(come[from], come[to]);
        next[from] = std::max(next[from], begin + ends[m].sent);
        next[to] = std::max(next[to], begin + ends[m].received);
      }
      come = next;
    }
  }
  return *std::ranges::max_element(come);
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
    for (int n = 0; n <= kMostPackedRanks; ++n) trees.emplace_back(usual_wiring(n));
    return trees;
  }();
  return all[static_cast<std::size_t>(ranks)];
}

std::vector<CollectiveStep> packed_tree_steps(int rank, int ranks, std::int64_t count, int per_node) {
  if (ranks > kMostPackedRanks) return hierarchical_all_reduce().steps(rank, ranks, count, per_node);
  return usual_trees(ranks).steps(rank, count);
}

/// Where no routes are known: ports of ranks, inside nodes and between them, and what a node has of either for all of its ranks.
MemberWays ways_by_ports(int ranks, const CollectiveLinks& links) {
  enum Port : std::uint32_t { InnerOut, InnerIn, InnerOfNode, OuterOut, OuterIn, OutOfNode, IntoNode, Ports };
  MemberWays known;
  known.links = static_cast<std::size_t>(ranks) * Ports;
  const auto link = [](Port port, int at) { return static_cast<std::uint32_t>(at) * Ports + port; };
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to) {
      const int node = from / links.ranks_per_node, other = to / links.ranks_per_node;
      auto& way = known.ways.emplace_back();
      if (node == other) {
        way = {links.inner_latency,
               {{link(InnerOut, from), links.inner_bandwidth},
                {link(InnerIn, to), links.inner_bandwidth},
                {link(InnerOfNode, node), links.node_inner}}};
        continue;
      }
      const int distance = std::abs(to - from);
      const auto path = path_of(links.around, std::min(distance, ranks - distance));
      const auto bandwidth = !path ? links.outer_bandwidth : std::min(links.outer_bandwidth, path->bandwidth);
      way = {!path ? links.outer_latency : std::max(links.outer_latency, path->latency),
             {{link(OuterOut, from), bandwidth},
              {link(OuterIn, to), bandwidth},
              {link(OutOfNode, node), links.node_outer},
              {link(IntoNode, other), links.node_outer}}};
    }
  return known;
}

/// What goes over a link, or is added at a rank.
struct Occupied {
  Seconds begin, takes;
};
/// When all of them are done: from some beginning on that one and all that begin later follow each other.
Seconds done_with_all(std::vector<Occupied>& taken) {
  std::ranges::sort(taken, std::greater<>{}, &Occupied::begin);
  Seconds end, later;
  for (const auto& one : taken) {
    later += one.takes;
    end = std::max(end, one.begin + later);
  }
  return end;
}
/// When one of those that share a link alike is done, at the latest: of longer ones no more is done until then than of itself.
Seconds done_with_one(const Occupied& own, const std::vector<Occupied>& taken) {
  Seconds end = own.begin;
  for (const auto& other : taken) end += std::min(other.takes, own.takes);
  return end;
}

/// How long the messages of a slot take, which share links, and what ranks add of them one after the other.
class SlotLoads {
 public:
  SlotLoads(int ranks, const CollectiveLinks& links) : ranks_(ranks), reduction_(links.reduction), ways_(links.members) {
    if (ways_.ways.empty()) ways_ = ways_by_ports(ranks, links);
  }

  [[nodiscard]] std::vector<PackedTrees::Ends> ends_of(std::span<const PackedTrees::Message> messages, Bytes chunk) const {
    std::vector<std::vector<Occupied>> links(ways_.links), adders(static_cast<std::size_t>(ranks_));
    for (const auto& m : messages)
      for (const auto& share : way(m).shares) links[share.link].push_back(occupied(m, chunk, share));
    std::vector<Seconds> done, added;
    for (auto& taken : links) done.push_back(done_with_all(taken));
    std::vector<PackedTrees::Ends> ends;
    for (const auto& m : messages) {
      Seconds arrived = way(m).latency;
      for (const auto& share : way(m).shares)
        arrived = std::max(arrived, std::min(done[share.link], done_with_one(occupied(m, chunk, share), links[share.link])));
      ends.push_back({arrived, arrived});
      if (m.reduce) adders[static_cast<std::size_t>(m.to)].push_back({arrived, chunk * m.share / reduction_});
    }
    for (auto& taken : adders) added.push_back(done_with_all(taken));
    for (std::size_t n = 0; n < messages.size(); ++n)
      if (messages[n].reduce) ends[n].received = added[static_cast<std::size_t>(messages[n].to)];
    return ends;
  }

 private:
  [[nodiscard]] const MemberWays::Way& way(const PackedTrees::Message& m) const {
    return ways_.ways[static_cast<std::size_t>(m.from * ranks_ + m.to)];
  }
  [[nodiscard]] Occupied occupied(const PackedTrees::Message& m, Bytes chunk, const MemberWays::Share& share) const {
    return {way(m).latency, chunk * m.share / share.bandwidth};
  }

  int ranks_;
  BytesPerSecond reduction_;
  MemberWays ways_;
};

Seconds packed_trees_time_of(int ranks, Bytes size, const CollectiveLinks& links) {
  if (ranks > kMostPackedRanks) return hierarchical_all_reduce().closed_form(ranks, size, links);
  const SlotLoads loads(ranks, links);
  return usual_trees(ranks).time(size, [&](auto messages, Bytes chunk) { return loads.ends_of(messages, chunk); });
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
