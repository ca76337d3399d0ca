// A tree given cable by cable. Between two nodes of a tree there is one way, so nothing has to be said about routing.

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "platforms/topologies/topology_rows.hpp"

namespace rehearsal::platforms {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

struct Vertex {
  std::size_t parent = kNone;
  std::size_t cable = kNone;  ///< to the parent
  std::size_t depth = 0;
  bool forwards = true;  ///< the cable's `from` is this vertex, its `to` the parent
};

/// Names, and the cables at every vertex.
struct CableGraph {
  std::map<std::string, std::size_t, std::less<>> numbers;
  std::vector<std::string> names;
  std::vector<std::vector<std::size_t>> cables_at;

  std::size_t number(const std::string& name) {
    const auto [found, inserted] = numbers.try_emplace(name, names.size());
    if (inserted) {
      names.push_back(name);
      cables_at.emplace_back();
    }
    return found->second;
  }
};

std::string cable_key(std::size_t cable) { return "topology.cables[" + std::to_string(cable) + "]"; }

std::size_t other_end(CableGraph& graph, const Cable& cable, std::size_t end) {
  const auto from = graph.number(cable.from);
  return from == end ? graph.number(cable.to) : from;
}

/// Says which cables close a cycle: the way from one end of `cable` back to its other end.
[[noreturn]] void refuse_cycle(const CableGraph& graph, const std::vector<Vertex>& tree, std::size_t cable,
                               std::pair<std::size_t, std::size_t> ends) {
  std::string way = graph.names[ends.first];
  std::vector<std::size_t> back{ends.second};
  auto [a, b] = ends;
  while (a != b) {
    if (tree[a].depth >= tree[b].depth) {
      a = tree[a].parent;
      way += " - " + graph.names[a];
    } else {
      b = tree[b].parent;
      back.push_back(b);
    }
  }
  back.pop_back();  // where both ways meet is in `way` already
  for (auto at = back.rbegin(); at != back.rend(); ++at) way += " - " + graph.names[*at];
  throw BadInput(cable_key(cable) + ": closes the cycle " + way + " - " + graph.names[ends.first] + "; the cables must form a tree");
}

/// Hangs every vertex that `root` reaches under it. Throws BadInput for a cycle.
void grow(const Topology& topology, CableGraph& graph, std::vector<Vertex>& tree, std::size_t root) {
  std::vector<std::size_t> waiting{root};
  std::vector<bool> seen(tree.size(), false);
  seen[root] = true;
  while (!waiting.empty()) {
    const auto at = waiting.back();
    waiting.pop_back();
    for (const auto cable : graph.cables_at[at]) {
      if (cable == tree[at].cable) continue;
      const auto next = other_end(graph, topology.cables[cable], at);
      if (seen[next]) refuse_cycle(graph, tree, cable, {at, next});
      seen[next] = true;
      tree[next] = {at, cable, tree[at].depth + 1, graph.number(topology.cables[cable].from) == next};
      waiting.push_back(next);
    }
  }
  for (std::size_t v = 0; v < tree.size(); ++v)
    if (!seen[v]) throw BadInput("topology.cables: \"" + graph.names[v] + "\" cannot be reached from \"" + graph.names[root] + "\"");
}

struct Tree {
  CableGraph graph;
  std::vector<Vertex> vertices;
  std::vector<std::size_t> nodes;  ///< vertex of node k
};

bool is_node_name(std::string_view name) {
  return name.starts_with("node") && name.size() > 4 && name.find_first_not_of("0123456789", 4) == std::string_view::npos;
}

/// Nodes are numbered without gaps from 0.
void refuse_gap(const Tree& tree) {
  const auto found = static_cast<std::size_t>(std::count_if(tree.graph.names.begin(), tree.graph.names.end(), is_node_name));
  if (found == tree.nodes.size() && found != 0) return;
  throw BadInput("topology.cables: \"node" + std::to_string(tree.nodes.size()) +
                 "\" has no cable; nodes are called node0, node1, … without gaps");
}

Tree tree_of(const Topology& topology) {
  Tree tree;
  if (topology.cables.empty()) throw BadInput("topology.cables: there must be at least one cable");
  for (std::size_t i = 0; i < topology.cables.size(); ++i) {
    const auto from = tree.graph.number(topology.cables[i].from);
    const auto to = tree.graph.number(topology.cables[i].to);
    if (from == to) throw BadInput(cable_key(i) + ": both ends are \"" + topology.cables[i].from + "\"");
    tree.graph.cables_at[from].push_back(i);
    tree.graph.cables_at[to].push_back(i);
  }
  for (std::size_t k = 0;; ++k) {
    const auto found = tree.graph.numbers.find("node" + std::to_string(k));
    if (found == tree.graph.numbers.end()) break;
    tree.nodes.push_back(found->second);
  }
  refuse_gap(tree);
  tree.vertices.resize(tree.graph.names.size());
  grow(topology, tree.graph, tree.vertices, tree.nodes.front());
  return tree;
}

/// Cable c is links 2c (from → to) and 2c + 1 (to → from).
class CableTree final : public Network {
 public:
  explicit CableTree(const Topology& topology) : cables_(topology.cables), tree_(tree_of(topology)) {}

  [[nodiscard]] std::uint64_t link_count() const override { return 2 * cables_.size(); }
  [[nodiscard]] Link link(std::uint64_t link) const override {
    const auto& cable = cables_[link / 2];
    return {*cable.bandwidth, *cable.latency, Watts(0), Watts(0), LinkRole::Network};
  }
  [[nodiscard]] std::string link_name(std::uint64_t link) const override {
    const auto& cable = cables_[link / 2];
    return "cable" + std::to_string(link / 2) +
           (link % 2 == 0 ? "." + cable.from + ".to." + cable.to : "." + cable.to + ".to." + cable.from);
  }

  void route(Endpoint from, Endpoint to, std::vector<std::uint32_t>& links) const override {
    auto a = tree_.nodes[static_cast<std::size_t>(from.node)];
    auto b = tree_.nodes[static_cast<std::size_t>(to.node)];
    std::vector<std::uint32_t> descent;
    while (a != b) {
      const bool climb = tree_.vertices[a].depth >= tree_.vertices[b].depth;
      auto& end = climb ? a : b;
      const auto& vertex = tree_.vertices[end];
      (climb ? links : descent).push_back(static_cast<std::uint32_t>(2 * vertex.cable + (vertex.forwards == climb ? 0 : 1)));
      end = vertex.parent;
    }
    links.insert(links.end(), descent.rbegin(), descent.rend());
  }

  [[nodiscard]] Seconds exit_latency() const override { return Seconds(0); }

 private:
  std::vector<Cable> cables_;
  Tree tree_;
};

std::int64_t capacity_of_links(const Topology& topology) { return static_cast<std::int64_t>(tree_of(topology).nodes.size()); }

std::unique_ptr<Network> build_links(const Topology& topology, NetworkSize) { return std::make_unique<CableTree>(topology); }

}  // namespace

constinit const TopologyRow kLinks{.kind = "links",
                                   .meaning = "a tree of nodes and switches, cable by cable",
                                   .parameters = {},
                                   .has_cables = true,
                                   .capacity = capacity_of_links,
                                   .build = build_links};

}  // namespace rehearsal::platforms
