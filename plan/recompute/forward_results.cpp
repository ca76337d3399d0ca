#include "plan/recompute/forward_results.hpp"

#include <algorithm>

#include "graph/op_schema.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::Phase;
using graph::TensorId;

namespace {

/// A result so many times smaller than what it is made from is kept: making it again would read much and save little.
constexpr std::int64_t kStatisticShare = 16;

}  // namespace

ForwardResults::ForwardResults(const graph::TrainingGraph& training, const Sharding& sharding, std::vector<int> part_of_node)
    : training_(training), g_(training.graph), part_of_node_(std::move(part_of_node)) {
  for (const int part : part_of_node_) parts_ = std::max(parts_, part + 1);
  bytes_.resize(g_.tensors().size());
  const Coordinates first(sharding.axes.size(), 0);
  for (std::size_t t = 0; t < bytes_.size(); ++t) {
    const auto id = static_cast<TensorId>(t);
    if (g_[id].role != graph::TensorRole::Activation && g_[id].role != graph::TensorRole::Input) continue;
    if (sharding.is_inside_ring(id) || sharding.is_inside_kernel(id)) continue;
    bytes_[t] =
        graph::element_count(sharding.local_shape(id, sharding.layout(id), first)) * static_cast<std::int64_t>(size_of(g_[id].type.dtype));
  }
  find_roots();
  find_readers();
  find_droppable(sharding);
}

bool ForwardResults::is_view(NodeId n) const { return graph::has(graph::schema(g_[n]).traits, graph::Trait::View); }

void ForwardResults::find_roots() {
  roots_.resize(g_.tensors().size());
  sampled_.assign(roots_.size(), false);
  for (std::size_t t = 0; t < roots_.size(); ++t) roots_[t] = static_cast<TensorId>(t);
  for (const TensorId t : g_.inputs()) sampled_[graph::index(t)] = true;
  for (std::size_t n = 0; n < g_.nodes().size(); ++n) {
    const auto& node = g_.nodes()[n];
    if (node.phase != Phase::Forward) break;
    const bool sampled =
        graph::has(graph::schema(node).traits, graph::Trait::Random) ||
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](TensorId t) { return t != TensorId::None && sampled_[graph::index(t)]; });
    for (const TensorId t : node.outputs)
      if (t != TensorId::None) sampled_[graph::index(t)] = sampled;
    if (is_view(static_cast<NodeId>(n))) roots_[graph::index(node.outputs.front())] = root(node.inputs.front());
  }
}

void ForwardResults::find_readers() {
  saved_.assign(roots_.size(), false);
  stays_.assign(roots_.size(), true);
  last_readers_.assign(roots_.size(), NodeId::None);
  for (std::size_t n = 0; n < g_.nodes().size(); ++n) {
    const auto id = static_cast<NodeId>(n);
    const auto& node = g_[id];
    for (const TensorId t : node.inputs) {
      if (t == TensorId::None) continue;
      const auto r = graph::index(root(t));
      const NodeId producer = g_[root(t)].producer;
      if (producer != NodeId::None && (part(id) != part(producer) || node.phase == Phase::Update)) stays_[r] = false;
      saved_[r] = saved_[r] || node.phase == Phase::Backward;
      if (node.phase == Phase::Forward && !is_view(id)) last_readers_[r] = id;
    }
  }
}

/// Read once all micro-batches are through, or summed over them.
bool ForwardResults::leaves_loop(TensorId root, const Sharding& sharding) const {
  if (sharding.parts[graph::index(g_[root].producer)] != LoopPart::Inside) return true;
  for (std::size_t a = 0; a < sharding.axes.size(); ++a)
    if (sharding.axes[a].in_time && sharding.layout(root)[a].partial()) return true;
  return false;
}

bool ForwardResults::is_statistic(TensorId root) const {
  std::int64_t largest = 0;
  for (const TensorId t : g_[g_[root].producer].inputs)
    if (t != TensorId::None) largest = std::max(largest, bytes_[graph::index(t)]);
  return bytes(root) * kStatisticShare <= largest;
}

void ForwardResults::find_droppable(const Sharding& sharding) {
  droppable_.assign(roots_.size(), false);
  for (std::size_t t = 0; t < roots_.size(); ++t) {
    const auto id = static_cast<TensorId>(t);
    const NodeId producer = g_[id].producer;
    if (roots_[t] != id || g_[id].role != graph::TensorRole::Activation || producer == NodeId::None || part(producer) < 0) continue;
    droppable_[t] = stays_[t] && id != training_.loss && !leaves_loop(id, sharding) && !is_statistic(id) && !sharding.is_inside_ring(id) &&
                    !sharding.is_inside_kernel(id);
  }
  // A view that leaves its part takes its memory along.
  for (std::size_t n = 0; n < g_.nodes().size(); ++n) {
    const auto id = static_cast<NodeId>(n);
    if (g_[id].phase != Phase::Forward || !is_view(id)) continue;
    const TensorId view = g_[id].outputs.front(), r = root(view);
    if (view == training_.loss || (g_[r].producer != NodeId::None && leaves_loop(view, sharding))) droppable_[graph::index(r)] = false;
  }
}

std::vector<NodeId> ForwardResults::nodes_of(int wanted) const {
  std::vector<NodeId> nodes;
  for (std::size_t n = 0; n < g_.nodes().size(); ++n) {
    const auto id = static_cast<NodeId>(n);
    if (g_[id].phase != Phase::Forward) break;
    if (part(id) == wanted && !is_view(id)) nodes.push_back(id);
  }
  return nodes;
}

std::vector<TensorId> ForwardResults::operands(NodeId n) const {
  std::vector<TensorId> found;
  for (const TensorId t : g_[n].inputs) {
    if (t == TensorId::None) continue;
    const TensorId r = root(t);
    if (g_[r].role == graph::TensorRole::Activation && std::find(found.begin(), found.end(), r) == found.end()) found.push_back(r);
  }
  return found;
}

std::vector<bool> ForwardResults::with_views(std::vector<bool> marked) const {
  for (std::size_t t = 0; t < roots_.size(); ++t) marked[t] = marked[graph::index(roots_[t])];
  return marked;
}

}  // namespace rehearsal::plan
