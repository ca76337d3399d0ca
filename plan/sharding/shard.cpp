#include <algorithm>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "plan/sharding/passes.hpp"

namespace rehearsal::plan {

using graph::AtomId;
using graph::IterDim;
using graph::NodeId;
using graph::TensorId;

namespace {

void check_axes(const std::vector<MeshAxis>& axes) {
  std::size_t in_time = 0;
  for (const MeshAxis& a : axes) {
    if (a.size < 1) throw BadInput("mesh axis '" + a.name + "'", "its size is " + std::to_string(a.size) + ", it must be at least 1");
    in_time += a.in_time;
  }
  if (in_time > 1) throw BadInput("mesh", "only one axis can be in time");
}

/// Says why nodes are not split on an axis.
class MissReport {
 public:
  MissReport(const ShardingTask& task, const Sharding& result, std::size_t axis) : task_(task), s_(result), axis_(axis) {
    for (const auto& rule : task.rules[axis].atoms) selected_.insert(selected_.end(), rule.begin(), rule.end());
    std::sort(selected_.begin(), selected_.end());
    const auto& atoms = task.dims.atoms();
    for (std::size_t leaf = 0; leaf < atoms.count(); ++leaf) {
      const auto splits = atoms.splits_of(static_cast<AtomId>(leaf));
      has_selected_.push_back(
          std::any_of(splits.begin(), splits.end(), [&](AtomId a) { return std::binary_search(selected_.begin(), selected_.end(), a); }));
    }
  }

  /// "" when the node has none of the axis' dimensions, or computes all of it on purpose.
  std::string reason(NodeId id) const {
    const graph::Node& node = task_.graph[id];
    if (!concerned(id) || task_.is_whole(id, axis_)) return "";
    if (node.phase == graph::Phase::Backward && node.forward != NodeId::None && !s_.choice(node.forward, axis_)) {
      return "its forward node '" + task_.graph[node.forward].name + "' is not split";
    }
    std::vector<const IterDim*> chosen;
    std::int64_t parts = task_.axes[axis_].size;
    for (std::size_t a = 0; a < axis_; ++a) chosen.push_back(s_.choice(id, a));
    for (const IterDim& way : task_.dims.iteration(id)) {
      if (!std::binary_search(selected_.begin(), selected_.end(), way.atom)) continue;
      const std::string dim = task_.dims.name(way.atom) + " of size " + std::to_string(task_.dims.atoms().size(way.atom));
      switch (obstacle(task_, id, axis_, way, chosen)) {
        case Miss::TooSmall:
          for (std::size_t a = 0; a < axis_; ++a) parts *= chosen[a] == &way ? task_.axes[a].size : 1;
          return dim + " has too few elements for " + std::to_string(parts) + " parts";
        case Miss::PlaceTaken:
          return dim + " stands where another axis splits";
        case Miss::Window:
          return "its window cannot be cut into " + std::to_string(task_.axes[axis_].size) + " blocks of " + dim;
        case Miss::Scattered:
          return "a part of " + dim + " would be no single range of indices, which the operator needs";
        case Miss::ResultLacksIt:
          return "not every result has " + dim;
        default:
          return dim + " was not chosen";
      }
    }
    for (const graph::Misfit& m : task_.dims.misfits()) {
      if (m.node == id) return m.reason;
    }
    return std::string(graph::schema(node).name) + " needs the dimension whole";
  }

 private:
  /// Does an operand or result have one of the axis' dimensions?
  bool concerned(NodeId id) const {
    const graph::Node& node = task_.graph[id];
    const auto has = [&](const graph::TensorDims& dims) {
      return std::any_of(dims.begin(), dims.end(), [&](const graph::Factors& f) { return has_selected(f); });
    };
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != TensorId::None && has(task_.dims.of_operand(id, i))) return true;
    }
    return std::any_of(node.outputs.begin(), node.outputs.end(), [&](TensorId t) { return t != TensorId::None && has(task_.dims.of(t)); });
  }

  bool has_selected(const graph::Factors& leaves) const {
    return std::any_of(leaves.begin(), leaves.end(), [&](AtomId leaf) { return has_selected_[static_cast<std::size_t>(leaf)]; });
  }

  const ShardingTask& task_;
  const Sharding& s_;
  std::size_t axis_;
  std::vector<AtomId> selected_;
  std::vector<bool> has_selected_;  ///< [atom]: it is one of them, or made of one
};

[[noreturn]] void refuse(const ShardingTask& task, std::size_t axis, const AxisUse& use) {
  std::string dims;
  for (const std::string& d : task.axes[axis].dims) dims += (dims.empty() ? "" : ", ") + d;
  std::string message =
      "mesh axis '" + task.axes[axis].name + "' of size " + std::to_string(task.axes[axis].size) + ": no operator can be split by " + dims;
  const auto named = std::find_if(use.replicas.begin(), use.replicas.end(), [](const Replica& r) { return !r.reason.empty(); });
  if (named != use.replicas.end()) message += "; node '" + task.graph[named->node].name + "': " + named->reason;
  if (named == use.replicas.end()) {
    message += task.dims.batch().empty() ? "; the inputs hold " + std::to_string(task.training.batch) + " sample(s)"
                                         : "; no node has such a dimension";
  }
  throw Refusal(message);
}

}  // namespace

void report_use(const ShardingTask& task, Sharding& result) {
  const graph::Graph& g = task.graph;
  std::vector<double> flops;
  for (const graph::Node& node : g.nodes()) flops.push_back(node.phase == graph::Phase::Update ? 0 : graph::flops_of(g, node));
  result.use.assign(task.axes.size(), {});
  for (std::size_t a = 0; a < task.axes.size(); ++a) {
    AxisUse& use = result.use[a];
    bool used = task.axes[a].size == 1;
    const MissReport misses(task, result, a);
    for (std::size_t n = 0; n < g.nodes().size(); ++n) {
      const auto id = static_cast<NodeId>(n);
      if (g[id].phase == graph::Phase::Update) break;
      use.flops_total += flops[n];
      if (result.choice(id, a)) {
        used = true;
      } else if (task.axes[a].size > 1) {
        use.flops_replicated += flops[n];
        if (std::string why = misses.reason(id); !why.empty()) use.replicas.push_back({id, std::move(why)});
      }
    }
    if (!used) refuse(task, a, use);
  }
}

Sharding shard(const graph::TrainingGraph& training, std::shared_ptr<const graph::LogicalDims> dims, const std::vector<MeshAxis>& axes) {
  check_axes(axes);
  Sharding result;
  result.axes = axes;
  result.dims = std::move(dims);
  ShardingTask task(training, *result.dims, axes);
  do {
    choose_forward(task, result);
    lay_out(task, result);
  } while (place_in_time(task, result) || spare_gathers(task, result));
  if (find_rings(task, result)) lay_out(task, result);
  result.rings = task.rings;
  result.ring_of_node = task.ring_of_node;
  find_conversions(task, result);
  report_use(task, result);
  return result;
}

Sharding shard(const graph::TrainingGraph& training, const std::vector<MeshAxis>& axes) {
  return shard(training, std::make_shared<const graph::LogicalDims>(training.graph), axes);
}

}  // namespace rehearsal::plan
