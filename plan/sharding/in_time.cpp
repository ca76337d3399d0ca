// The loop over micro-batches: which nodes run before, inside and after it, which are hoisted, and which stand in its way.

#include <algorithm>

#include "graph/op_schema.hpp"
#include "plan/sharding/passes.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;

namespace {

class TimePass {
 public:
  TimePass(ShardingTask& task, Sharding& result)
      : task_(task), graph_(task.graph), s_(result), axis_(task.axis_in_time()), bad_root_(graph_.tensors().size(), TensorId::None) {}

  bool run() {
    s_.parts.assign(graph_.nodes().size(), axis_ < task_.axes.size() ? LoopPart::Before : LoopPart::Inside);
    s_.barriers.clear();
    if (axis_ == task_.axes.size()) return false;
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) visit(static_cast<NodeId>(n));
    return changed_;
  }

 private:
  ShardingTask& task_;
  const graph::Graph& graph_;
  Sharding& s_;
  std::size_t axis_;
  std::vector<TensorId> bad_root_;  ///< [tensor]: of results after the loop: a total that cannot be taken before it
  bool changed_ = false;

  void visit(NodeId id) {
    const graph::Node& node = graph_[id];
    const bool inside = s_.choice(id, axis_) != nullptr || reads_parts(task_, s_, id, axis_);
    bool after = false;
    TensorId root = TensorId::None;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorId t = node.inputs[i];
      if (t == TensorId::None || !is_total(id, i)) continue;
      after = true;
      const TensorId cause = comes_after(t) ? bad_root_[graph::index(t)] : (task_.data_only[graph::index(t)] ? TensorId::None : t);
      if (cause != TensorId::None) root = cause;
      if (inside) resolve(id, t, cause);
    }
    s_.parts[graph::index(id)] = inside ? LoopPart::Inside : after ? LoopPart::After : LoopPart::Before;
    for (const TensorId t : node.outputs) {
      if (t != TensorId::None && !inside) bad_root_[graph::index(t)] = root;
    }
  }

  bool comes_after(TensorId t) const {
    const NodeId producer = graph_[t].producer;
    return producer != NodeId::None && s_.parts[graph::index(producer)] == LoopPart::After;
  }

  /// Does operand i need all micro-batches of a tensor that the loop computes?
  bool is_total(NodeId id, std::size_t i) const {
    const TensorId t = graph_[id].inputs[i];
    if (comes_after(t)) return true;
    const AxisLayout& have = s_.layout(t)[axis_];
    AxisLayout want = s_.wanted[graph::index(id)][i][axis_];
    want.halo = 0;
    return graph_[t].producer != NodeId::None && !have.replicated() && have != want;
  }

  void resolve(NodeId id, TensorId needed, TensorId bad_root) {
    if (bad_root == TensorId::None) {
      hoist(needed);
      return;
    }
    const std::string what = "'" + graph_[bad_root].name + "'";
    s_.barriers.push_back({id, needed, bad_root, what + " must be summed over all micro-batches before the first can go on"});
  }

  /// Takes the totals behind `t` out of the loop. What runs after the loop runs before it once the totals that it reads do.
  void hoist(TensorId t) {
    std::vector<TensorId> open = {t};
    while (!open.empty()) {
      const TensorId next = open.back();
      open.pop_back();
      if (task_.data_only[graph::index(next)]) {
        changed_ = task_.compute_whole(s_, next, axis_) || changed_;
      } else if (comes_after(next)) {
        const graph::Node& node = graph_[graph_[next].producer];
        for (const TensorId i : node.inputs) {
          if (i != TensorId::None) open.push_back(i);
        }
      }
    }
  }
};

}  // namespace

bool place_in_time(ShardingTask& task, Sharding& result) {
  const bool changed = TimePass(task, result).run();
  const std::size_t axis = task.axis_in_time();
  result.hoisted = axis < task.axes.size() ? task.unsplit[axis] : std::vector<NodeId>{};
  std::sort(result.hoisted.begin(), result.hoisted.end());
  return changed;
}

void refuse_barriers(const graph::Graph& graph, const Sharding& sharding) {
  if (sharding.barriers.empty()) return;
  const TimeBarrier& first = sharding.barriers.front();
  const graph::Node& node = graph[first.node];
  std::vector<TensorId> roots;
  for (const TimeBarrier& b : sharding.barriers) roots.push_back(b.root);
  std::sort(roots.begin(), roots.end());
  roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
  const std::string others = roots.size() > 1 ? " (and " + std::to_string(roots.size() - 1) + " more such sums)" : "";
  const bool statistics =
      std::ranges::all_of(sharding.barriers, [&](const TimeBarrier& b) { return graph::schema(graph[b.node]).is_batch_statistic(1); });
  throw NoMicroBatches("micro-batches: node '" + node.name + "' (" + std::string(graph::schema(node).name) +
                       ") cannot run in the loop: " + first.reason + others + "; let a micro-batch be the replica's whole batch" +
                       (statistics ? ", or give bn=sync or bn=local (other statistics)" : ""));
}

}  // namespace rehearsal::plan
