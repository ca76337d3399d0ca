// One iteration dimension per forward node and axis, by the axis' rules.

#include <algorithm>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "plan/sharding/passes.hpp"
#include "plan/sharding/windows.hpp"

namespace rehearsal::plan {

using graph::AtomId;
using graph::IterDim;
using graph::NodeId;
using graph::OperandDim;
using graph::TensorId;

namespace {

bool matches(const graph::Atoms& atoms, const std::vector<AtomId>& rule, const IterDim& way) {
  if (std::binary_search(rule.begin(), rule.end(), way.atom)) return true;
  if (way.kind != graph::LabelKind::Window) return false;
  // A window has its axis at several resolutions: any member of the family will do.
  return std::any_of(rule.begin(), rule.end(), [&](AtomId a) { return atoms.family(a) == atoms.family(way.atom); });
}

bool share_a_place(const std::vector<OperandDim>& a, const std::vector<OperandDim>& b) {
  return std::any_of(a.begin(), a.end(), [&](const OperandDim& p) {
    return std::any_of(b.begin(), b.end(),
                       [&](const OperandDim& q) { return p.operand == q.operand && p.dim == q.dim && p.factor == q.factor; });
  });
}

std::int64_t smallest_place(const graph::Atoms& atoms, const IterDim& way) {
  std::int64_t least = atoms.size(way.atom);
  for (const std::vector<OperandDim>* side : {&way.inputs, &way.outputs}) {
    for (const OperandDim& p : *side) least = std::min(least, atoms.size(p.atom));
  }
  return least;
}

/// Are all blocks of a way single ranges of indices: is the outermost factor split, and not inside the segments of a sum?
bool owns_ranges(const ShardingTask& task, NodeId node, const IterDim& way) {
  const graph::Node& n = task.graph[node];
  const auto range = [&](const graph::TensorDims& dims, const OperandDim& p) {
    return p.factor == 0 && task.dims.atoms().find(dims[static_cast<std::size_t>(p.dim)].front()) == task.dims.atoms().find(p.atom);
  };
  return std::all_of(way.inputs.begin(), way.inputs.end(),
                     [&](const OperandDim& p) { return range(task.dims.of_operand(node, static_cast<std::size_t>(p.operand)), p); }) &&
         std::all_of(way.outputs.begin(), way.outputs.end(),
                     [&](const OperandDim& p) { return range(task.dims.of(n.outputs[static_cast<std::size_t>(p.operand)]), p); });
}

/// A kernel cuts its piece out of a local block that is one range of indices: strips (the parts of a fused weight, each cut) are none.
bool cuts_ranges(const ShardingTask& task, NodeId id, const IterDim& way) {
  const graph::Node& node = task.graph[id];
  const bool cuts = graph::schema(node).name == "Slice";
  const TensorId whole = cuts ? node.inputs[0] : node.outputs[0], piece = cuts ? node.outputs[0] : node.inputs[0];
  const graph::TensorDims& dims = cuts ? task.dims.of_operand(id, 0) : task.dims.of(whole);
  return std::all_of((cuts ? way.inputs : way.outputs).begin(), (cuts ? way.inputs : way.outputs).end(), [&](const OperandDim& p) {
    const auto d = static_cast<std::size_t>(p.dim);
    if (p.operand != 0 || task.graph[whole].type.shape[d] == task.graph[piece].type.shape[d]) return true;
    return p.factor == 0 && task.dims.atoms().find(dims[d].front()) == task.dims.atoms().find(p.atom);
  });
}

bool window_can_be_cut(const ShardingTask& task, NodeId id, const IterDim& way, std::int64_t blocks) {
  const graph::Node& node = task.graph[id];
  const auto whole = [&](const graph::TensorDims& dims, const OperandDim& p) { return dims[static_cast<std::size_t>(p.dim)].size() == 1; };
  for (const OperandDim& p : way.inputs) {
    if (!whole(task.dims.of_operand(id, static_cast<std::size_t>(p.operand)), p) || p.dim < 2) return false;
  }
  for (const OperandDim& p : way.outputs) {
    if (!whole(task.dims.of(node.outputs[static_cast<std::size_t>(p.operand)]), p)) return false;
  }
  const graph::NodeTypes types(task.graph, node);
  return can_cut({graph::schema(node), types.view(), static_cast<std::size_t>(way.inputs.front().dim - 2)}, blocks);
}

std::vector<AtomId> atoms_named(const graph::LogicalDims& dims, const MeshAxis& axis, const std::string& name) {
  std::vector<AtomId> atoms = name == "batch" ? dims.batch() : dims.named(name);
  if (atoms.empty() && name != "batch") {
    throw BadInput("mesh axis '" + axis.name + "'",
                   "the model has no logical dimension '" + name + "'; 'inspect --dims' lists them, 'batch' is the inputs' first");
  }
  std::sort(atoms.begin(), atoms.end());
  return atoms;
}

/// The first of the node's ways in `order` that one of the rules asks for and nothing hinders; -1: none.
int first_fitting(const ShardingTask& task, NodeId id, std::size_t axis, const std::vector<std::vector<AtomId>>& rules,
                  const std::vector<const IterDim*>& chosen) {
  const std::vector<IterDim>& ways = task.dims.iteration(id);
  for (const std::vector<AtomId>& rule : rules) {
    for (const bool reduces : {false, true}) {
      for (std::size_t w = 0; w < ways.size(); ++w) {
        if (ways[w].reduces() == reduces && matches(task.dims.atoms(), rule, ways[w]) &&
            obstacle(task, id, axis, ways[w], chosen) == Miss::None)
          return static_cast<int>(w);
      }
    }
  }
  return -1;
}

bool reads_weight(const ShardingTask& task, const graph::Node& node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](TensorId t) { return t != TensorId::None && task.weights[graph::index(t)]; });
}

}  // namespace

std::vector<AxisRules> resolve_rules(const graph::LogicalDims& dims, const std::vector<MeshAxis>& axes) {
  std::vector<AxisRules> rules;
  for (const MeshAxis& axis : axes) {
    const auto resolved = [&](const std::vector<std::string>& names) {
      std::vector<std::vector<AtomId>> all;
      for (const std::string& name : names) all.push_back(atoms_named(dims, axis, name));
      return all;
    };
    rules.push_back({resolved(axis.dims), resolved(axis.weightless)});
  }
  return rules;
}

Miss obstacle(const ShardingTask& task, NodeId node, std::size_t axis, const IterDim& way, const std::vector<const IterDim*>& chosen) {
  const graph::Node& n = task.graph[node];
  if (task.is_whole(node, axis)) return Miss::NoSuchDimension;
  if (!way.reduces() && !(way.kind == graph::LabelKind::Window && way.outputs.empty())) {
    const bool unused = std::all_of(n.outputs.begin(), n.outputs.end(),
                                    [&](TensorId t) { return t == TensorId::None || task.use_count[graph::index(t)] == 0; });
    for (std::size_t o = 0; o < n.outputs.size(); ++o) {
      const TensorId t = n.outputs[o];
      const bool needed = t != TensorId::None && (unused || task.use_count[graph::index(t)] > 0);
      if (needed && !way.output(o)) return Miss::ResultLacksIt;
    }
  }
  const bool ranged = way.ranged || graph::has(graph::schema(n).traits, graph::Trait::Positional);
  if (ranged && !owns_ranges(task, node, way)) return Miss::Scattered;
  const std::string_view op = graph::schema(n).name;
  if ((op == "Slice" || op == "SliceGrad") && !cuts_ranges(task, node, way)) return Miss::Scattered;
  if (way.kind == graph::LabelKind::Window && !window_can_be_cut(task, node, way, task.axes[axis].size)) return Miss::Window;
  std::int64_t parts = task.axes[axis].size;
  for (std::size_t a = 0; a < chosen.size(); ++a) {
    if (!chosen[a]) continue;
    if (chosen[a] == &way) {
      // A replica with samples of its own is cut into no more micro-batches than it has of them.
      const auto cuts_replica = [&](const MeshAxis& inner, const MeshAxis& outer) {
        return !inner.counts.empty() && !outer.samples.empty();
      };
      const bool fits = cuts_replica(task.axes[axis], task.axes[a]) || cuts_replica(task.axes[a], task.axes[axis]);
      parts = fits ? std::max(parts, task.axes[a].size) : parts * task.axes[a].size;
    } else if (share_a_place(chosen[a]->inputs, way.inputs) || share_a_place(chosen[a]->outputs, way.outputs)) {
      return Miss::PlaceTaken;
    }
  }
  return smallest_place(task.dims.atoms(), way) < parts ? Miss::TooSmall : Miss::None;
}

void choose_forward(const ShardingTask& task, Sharding& result) {
  const std::size_t axes = task.axes.size();
  result.choices.assign(task.graph.nodes().size() * axes, -1);
  for (std::size_t n = 0; n < task.graph.nodes().size(); ++n) {
    const auto id = static_cast<NodeId>(n);
    if (task.graph[id].phase != graph::Phase::Forward) continue;
    std::vector<const IterDim*> chosen(axes);
    for (std::size_t a = 0; a < axes; ++a) {
      if (task.axes[a].size == 1) continue;
      const AxisRules& rules = task.rules[a];
      int way = -1;
      if (!rules.weightless.empty() && !reads_weight(task, task.graph[id])) way = first_fitting(task, id, a, rules.weightless, chosen);
      if (way < 0) way = first_fitting(task, id, a, rules.atoms, chosen);
      if (way < 0) continue;
      chosen[a] = &task.dims.iteration(id)[static_cast<std::size_t>(way)];
      result.choices[n * axes + a] = way;
    }
  }
}

}  // namespace rehearsal::plan
