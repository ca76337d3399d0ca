#include "plan/schedules/stages.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "plan/schedules/even_cuts.hpp"

namespace rehearsal::plan {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Phase;
using graph::TensorId;

/// True for nodes computed from constants alone, and for updates of what every stage keeps for itself (the step counter).
std::vector<bool> free_nodes(const Graph& g) {
  std::vector<bool> is_free(g.nodes().size(), false);
  for (std::size_t n = 0; n < g.nodes().size(); ++n) {
    const auto& node = g.nodes()[n];
    const bool counter = node.phase == Phase::Update;
    is_free[n] = std::all_of(node.inputs.begin(), node.inputs.end(), [&](TensorId t) {
      if (t == TensorId::None || g[t].role == graph::TensorRole::Constant || (counter && g[t].role == graph::TensorRole::Slot)) return true;
      return g[t].producer != NodeId::None && is_free[graph::index(g[t].producer)];
    });
  }
  return is_free;
}

/// Cost of a cut before the i-th of `order`: of results of earlier forward nodes that later ones read.
std::vector<double> crossing_costs(const Graph& g, const std::vector<NodeId>& order, const std::vector<double>& of_tensor) {
  std::vector<std::int32_t> position(g.nodes().size(), -1);
  for (std::size_t i = 0; i < order.size(); ++i) position[graph::index(order[i])] = static_cast<std::int32_t>(i);
  std::vector<double> change(order.size() + 2, 0.0);
  std::vector<std::int32_t> last(g.tensors().size(), -1);
  for (std::size_t i = 0; i < order.size(); ++i)
    for (auto t : g[order[i]].inputs)
      if (t != TensorId::None) last[graph::index(t)] = static_cast<std::int32_t>(i);
  for (std::size_t t = 0; t < of_tensor.size(); ++t) {
    const auto producer = g.tensors()[t].producer;
    if (producer == NodeId::None || position[graph::index(producer)] < 0 || last[t] < 0) continue;
    change[static_cast<std::size_t>(position[graph::index(producer)]) + 1] += of_tensor[t];
    change[static_cast<std::size_t>(last[t]) + 1] -= of_tensor[t];
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return change;
}

std::vector<std::size_t> named_cuts(const Graph& g, const std::vector<NodeId>& order, const Plan& plan) {
  ensure(static_cast<int>(plan.cuts.size()) == plan.pp - 1, "as many cuts as a plan's schedule asks for");
  std::vector<std::size_t> cuts;
  for (const auto& name : plan.cuts) {
    const auto at = std::find_if(order.begin(), order.end(), [&](NodeId n) { return g[n].name == name; });
    if (at == order.end()) throw BadInput("plan: cuts", "the model has no node \"" + name + "\"");
    cuts.push_back(static_cast<std::size_t>(at - order.begin()));
    if (cuts.back() == 0 || (cuts.size() > 1 && cuts.back() <= cuts[cuts.size() - 2]))
      throw BadInput("plan: cuts", "\"" + name + "\" is not after the cut before it");
  }
  return cuts;
}

constexpr int kUnassigned = std::numeric_limits<int>::max();

/// Stages of nodes outside the forward pass: of the forward node they belong to, else where their operands come from.
class Others {
 public:
  Others(const graph::TrainingGraph& training, const Plan& plan, StageAssignment& stages)
      : training_(training), g_(training.graph), last_stage_(plan.pp - 1), stages_(stages) {}

  void assign() {
    for (std::size_t n = 0; n < g_.nodes().size(); ++n) {
      if (stages_.of_node[n] != kUnassigned) continue;
      const auto& node = g_.nodes()[n];
      const bool has_forward = node.phase == Phase::Backward && node.forward != NodeId::None;
      if (has_forward && stages_[node.forward] != kAnyStage)
        stages_.of_node[n] = stages_[node.forward];
      else
        stages_.of_node[n] = node.phase == Phase::Update ? of_update(node) : of_operands(node);
    }
  }

 private:
  [[nodiscard]] int of_operands(const graph::Node& node) const {
    int earliest = kUnassigned;
    for (auto t : node.inputs)
      if (t != TensorId::None && produced_on(t) != kAnyStage) earliest = std::min(earliest, produced_on(t));
    return earliest == kUnassigned ? last_stage_ : earliest;
  }

  /// Where the gradient is. A number of all parameters (a norm) goes from stage to stage, crossing every cut once.
  [[nodiscard]] int of_update(const graph::Node& node) {
    int of_block = kUnassigned, of_number = kAnyStage;
    for (auto t : node.inputs) {
      if (t == TensorId::None) continue;
      const int stage = g_[t].producer == NodeId::None ? owner_of(t) : produced_on(t);
      if (stage == kAnyStage) continue;
      if (g_[t].type.shape.empty())
        of_number = std::max(of_number, stage);
      else
        of_block = std::min(of_block, stage);
    }
    if (of_block != kUnassigned) return of_block;
    return of_number == kAnyStage ? last_stage_ : of_number;
  }

  [[nodiscard]] int produced_on(TensorId t) const { return g_[t].producer == NodeId::None ? kAnyStage : stages_[g_[t].producer]; }

  /// The stage that has the gradient of a parameter, and with it the parameter's state.
  [[nodiscard]] int owner_of(TensorId stored) {
    if (owners_.empty())
      for (const auto& p : training_.parameters) {
        const int owner = produced_on(p.gradient);
        owners_[p.value] = owner;
        for (auto slot : p.slots) owners_[slot] = owner;
      }
    const auto at = owners_.find(stored);
    return at == owners_.end() ? kAnyStage : at->second;
  }

  const graph::TrainingGraph& training_;
  const Graph& g_;
  int last_stage_;
  StageAssignment& stages_;
  std::map<TensorId, int> owners_;
};

/// Forward nodes that stages share out.
std::vector<NodeId> nodes_to_cut(const Graph& g, const std::vector<bool>& is_free) {
  std::vector<NodeId> order;
  for (std::size_t n = 0; n < g.nodes().size(); ++n)
    if (g.nodes()[n].phase == Phase::Forward && !is_free[n]) order.push_back(static_cast<NodeId>(n));
  return order;
}

std::vector<std::size_t> balanced_cuts(const Graph& g, const std::vector<NodeId>& order, int stages, const StageBalance& balance) {
  CutRow row{static_cast<std::size_t>(stages), {}, crossing_costs(g, order, balance.sending_costs), balance.devices};
  for (const auto& of_node : balance.node_costs) {
    auto& costs = row.costs.emplace_back();
    for (const NodeId n : order) costs.push_back(of_node[graph::index(n)]);
  }
  if (row.costs.empty()) {
    auto& costs = row.costs.emplace_back();
    for (const NodeId n : order) costs.push_back(roofline_cost(g, n));
  }
  return even_cuts(row);
}

}  // namespace

double roofline_cost(const Graph& g, NodeId n) {
  const graph::NodeTypes types(g, g[n]);
  const auto work = graph::work_of(graph::schema(g[n]), types.view());
  return std::max(work.flops.value(), 100.0 * work.bytes.value());
}

StageAssignment assign_stages(const graph::TrainingGraph& training, const Plan& plan, const StageBalance& balance) {
  const auto& g = training.graph;
  const auto is_free = free_nodes(g);
  StageAssignment stages;
  stages.of_node.assign(g.nodes().size(), plan.pp == 1 ? 0 : kUnassigned);
  for (std::size_t n = 0; n < g.nodes().size(); ++n)
    if (is_free[n]) stages.of_node[n] = kAnyStage;
  if (plan.pp == 1) return stages;
  const auto order = nodes_to_cut(g, is_free);
  if (order.size() < static_cast<std::size_t>(plan.pp))
    throw Refusal("plan: pp=" + std::to_string(plan.pp) + " stages, but the model has only " + std::to_string(order.size()) + " operators");
  const auto cuts = plan.cuts.empty() ? balanced_cuts(g, order, plan.pp, balance) : named_cuts(g, order, plan);
  for (std::size_t i = 0; i < order.size(); ++i)
    stages.of_node[graph::index(order[i])] = static_cast<int>(std::upper_bound(cuts.begin(), cuts.end(), i) - cuts.begin());
  Others(training, plan, stages).assign();
  return stages;
}

}  // namespace rehearsal::plan
