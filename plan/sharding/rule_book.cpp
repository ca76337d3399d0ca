#include "plan/sharding/rule_book.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "plan/batch_shares.hpp"
#include "plan/schedules/schedule.hpp"
#include "plan/sharding/passes.hpp"

namespace rehearsal::plan {

using graph::AtomId;
using graph::IterDim;
using graph::LabelKind;
using graph::LogicalDims;
using graph::NodeId;
using graph::Phase;
using graph::TensorId;

namespace {

constexpr std::size_t kMostImageAxes = 3;

/// Leaves along which windows slide, by image axis, outer to inner: wherever an input keeps its channels.
std::vector<AtomId> image_leaves(const graph::TensorDims& input, const graph::Atoms& atoms) {
  std::vector<AtomId> leaves;
  for (const auto& factors : input) {
    const auto leaf = std::find_if(factors.begin(), factors.end(), [&](AtomId a) { return atoms.is_window(a); });
    if (leaf != factors.end()) leaves.push_back(*leaf);
  }
  return leaves;
}

/// Collects what products of activations and weights do with each dimension.
class UseFinder {
 public:
  UseFinder(const graph::TrainingGraph& training, const LogicalDims& dims)
      : g_(training.graph), dims_(dims), weight_(tensors_of_weights(g_)), batch_(dims.batch().begin(), dims.batch().end()) {
    for (const auto& tensor : g_.tensors())
      if (graph::is_weight(tensor.role)) elements_of_weights_ += graph::element_count(tensor.type.shape);
    for (std::size_t n = 0; n < g_.nodes().size(); ++n) {
      const auto id = static_cast<NodeId>(n);
      if (g_[id].phase != Phase::Forward) break;
      visit(id);
    }
  }

  [[nodiscard]] DimensionUse found() const {
    DimensionUse use;
    // Where experts compute most, their tokens are another dimension than those that the model reads.
    const auto of_input = inputs();
    for (const auto& [atom, flops] : rows_) {
      if ((flops >= 0.3 * total_ || of_input.contains(atom)) && !dims_.atoms().is_window(atom)) use.sequence.push_back(atom);
    }
    for (const TensorId t : g_.inputs())
      use.image_axes = std::clamp(image_leaves(dims_.of(t), dims_.atoms()).size(), use.image_axes, kMostImageAxes);
    use.experts.assign(experts_.begin(), experts_.end());
    use.of_experts = of_experts_;
    for (const AtomId atom : of_tables_)
      if (weights_.at(atom) == 0) use.of_tables.insert(atom);
    use.weights = groups(true);
    if (use.weights.empty()) use.weights = groups(false);
    return use;
  }

 private:
  [[nodiscard]] std::set<AtomId> inputs() const {
    std::set<AtomId> atoms;
    for (const TensorId t : g_.inputs())
      for (const graph::Factors& dim : dims_.of(t)) atoms.insert(dim.begin(), dim.end());
    return atoms;
  }

  /// Candidates by what they are used for, the costliest first.
  [[nodiscard]] std::vector<std::vector<AtomId>> groups(bool without_residual) const {
    std::map<std::string, std::vector<AtomId>> alike;
    std::map<std::string, double> weight_of;
    for (const auto& [atom, flops] : weights_) {
      if (rows_.contains(atom) || experts_.contains(atom) || batch_.contains(atom) || dims_.atoms().is_window(atom)) continue;
      if (dims_.atoms().size(atom) < 2 || (without_residual && is_needed_whole(atom))) continue;
      const auto signature = signature_of(atom);
      alike[signature].push_back(atom);
      weight_of[signature] += flops;
    }
    std::vector<std::pair<double, std::string>> order;
    for (const auto& [signature, flops] : weight_of) order.emplace_back(-flops, signature);
    std::sort(order.begin(), order.end());
    constexpr std::size_t kMostGroups = 12;
    std::vector<std::vector<AtomId>> best;
    for (const auto& [_, signature] : order) {
      const bool of_table = std::ranges::any_of(alike[signature], [&](AtomId a) { return of_tables_.contains(a); });
      if (best.size() < kMostGroups || of_table) best.push_back(alike[signature]);
    }
    return best;
  }

  /// By two operators or more: the loss alone is no reason, it comes once.
  [[nodiscard]] bool is_needed_whole(AtomId atom) const {
    const auto at = whole_.find(atom);
    return at != whole_.end() && at->second > 1;
  }

  /// Counts the dimensions that a node has and cannot split.
  void note_whole(NodeId id) {
    const auto count = [&](const graph::TensorDims& dims) {
      for (const graph::Factors& dim : dims) {
        for (const AtomId atom : dim) {
          const auto& ways = dims_.iteration(id);
          const auto splits = [&](const graph::OperandDim& p) { return p.atom == atom; };
          const bool split = std::any_of(ways.begin(), ways.end(), [&](const IterDim& way) {
            return way.atom == atom || std::any_of(way.inputs.begin(), way.inputs.end(), splits);
          });
          if (!split) ++whole_[atom];
        }
      }
    };
    const auto& node = g_[id];
    if (!node.inputs.empty() && node.inputs.front() != TensorId::None && !weight_[graph::index(node.inputs.front())])
      count(dims_.of_operand(id, 0));
  }

  [[nodiscard]] bool is_weight(NodeId id, const graph::OperandDim& p) const {
    return weight_[graph::index(g_[id].inputs[static_cast<std::size_t>(p.operand)])];
  }

  void visit(NodeId id) {
    const auto& node = g_[id];
    std::size_t weights = 0, present = 0;
    for (const TensorId t : node.inputs) {
      present += t != TensorId::None;
      weights += t != TensorId::None && weight_[graph::index(t)];
    }
    const auto& row = graph::schema(node);
    for (const IterDim& way : dims_.iteration(id)) {
      for (const auto& p : way.inputs) uses_[way.atom].insert(std::string(row.name) + std::to_string(p.operand) + kind_of(way));
    }
    note_whole(id);
    if (weights == 0 || weights == present) return;
    const double flops = graph::flops_of(g_, node);
    const bool contracts = std::any_of(dims_.iteration(id).begin(), dims_.iteration(id).end(), [&](const IterDim& way) {
      return way.kind == LabelKind::Sum &&
             std::any_of(way.inputs.begin(), way.inputs.end(), [&](const auto& p) { return is_weight(id, p); });
    });
    if (!contracts) return;
    if (flops == 0) note_table(id);
    total_ += flops;
    const auto& ways = dims_.iteration(id);
    const bool expert = std::any_of(ways.begin(), ways.end(), [&](const IterDim& way) { return counts_experts(id, way); });
    for (const IterDim& way : ways) {
      note(id, way, flops);
      if (expert && in_weight(id, way) && !counts_experts(id, way)) of_experts_.insert(way.atom);
    }
  }

  [[nodiscard]] bool in_weight(NodeId id, const IterDim& way) const {
    return std::any_of(way.inputs.begin(), way.inputs.end(), [&](const auto& p) { return is_weight(id, p); });
  }

  [[nodiscard]] bool counts_experts(NodeId id, const IterDim& way) const {
    const bool in_activation = std::any_of(way.inputs.begin(), way.inputs.end(), [&](const auto& p) { return !is_weight(id, p); });
    return in_weight(id, way) && in_activation && way.kind == LabelKind::Parallel && !dims_.atoms().is_window(way.atom);
  }

  void note(NodeId id, const IterDim& way, double flops) {
    if (counts_experts(id, way)) {
      experts_.insert(way.atom);
    } else if (in_weight(id, way)) {
      weights_[way.atom] += flops;
    } else if (way.kind == LabelKind::Parallel && !batch_.contains(way.atom)) {
      rows_[way.atom] += flops;
    }
  }

  /// What kind a token is of is looked up as well, in tables that are too small to be worth a message.
  void note_table(NodeId id) {
    constexpr std::int64_t kLeastRows = 1000, kLeastShare = 100;
    const auto& inputs = g_.inputs();
    for (const IterDim& way : dims_.iteration(id))
      for (const auto& p : way.inputs) {
        const bool large = dims_.atoms().size(way.atom) >= kLeastRows && kLeastShare * elements_of(id, p) >= elements_of_weights_;
        const bool of_words = std::ranges::any_of(g_[id].inputs, [&](TensorId t) { return std::ranges::find(inputs, t) != inputs.end(); });
        if (way.reduces() && is_weight(id, p) && large && of_words) of_tables_.insert(way.atom);
      }
  }

  [[nodiscard]] std::int64_t elements_of(NodeId id, const graph::OperandDim& p) const {
    return graph::element_count(g_[g_[id].inputs[static_cast<std::size_t>(p.operand)]].type.shape);
  }

  static std::string kind_of(const IterDim& way) { return way.reduces() ? "+" : way.kind == LabelKind::Window ? "~" : "="; }

  [[nodiscard]] std::string signature_of(AtomId atom) const {
    std::string text = std::to_string(dims_.atoms().size(atom));
    for (const auto& use : uses_.at(atom)) text += " " + use;
    return text;
  }

  const graph::Graph& g_;
  const LogicalDims& dims_;
  std::vector<bool> weight_;
  std::set<AtomId> batch_, experts_, of_experts_, of_tables_;
  std::map<AtomId, double> weights_, rows_;  ///< FLOPs of the products that have the dimension
  std::map<AtomId, std::set<std::string>> uses_;
  std::map<AtomId, int> whole_;  ///< operators that cannot split it
  double total_ = 0;
  std::int64_t elements_of_weights_ = 0;
};

/// Takes groups of dimensions for tensor parallelism, the best first, while the step gets cheaper.
class TensorRules {
 public:
  TensorRules(const graph::TrainingGraph& training, std::shared_ptr<const LogicalDims> dims, int ranks)
      : training_(training), dims_(std::move(dims)), ranks_(ranks) {
    for (std::size_t n = 0; n < training.graph.nodes().size(); ++n) {
      const auto& node = training.graph.nodes()[n];
      const graph::NodeTypes types(training.graph, node);
      const auto work = graph::work_of(graph::schema(node), types.view());
      cost_.push_back(std::max(work.flops.value(), kFlopsPerMemoryByte * work.bytes.value()));
    }
  }

  [[nodiscard]] std::vector<std::string> choose(const DimensionUse& use) {
    const auto& groups = use.weights;
    std::vector<std::string> rule;
    std::vector<bool> taken(groups.size());
    double best = step_cost({});
    for (;;) {
      std::size_t winner = groups.size();
      double least = best * (1 - kLeastGain);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        if (taken[g]) continue;
        auto longer = rule;
        append(longer, groups[g]);
        const double cost = step_cost(longer);
        // The first group is taken even where it does not pay: tensor parallelism was asked for.
        if (cost < (rule.empty() && winner == groups.size() ? HUGE_VAL : least)) least = cost, winner = g;
      }
      if (winner == groups.size()) break;
      taken[winner] = true;
      append(rule, groups[winner]);
      best = least;
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto wanted = [&](AtomId a) { return use.of_experts.contains(a) || use.of_tables.contains(a); };
      if (taken[g] || !std::ranges::any_of(groups[g], wanted)) continue;
      auto longer = rule;
      append(longer, groups[g]);
      if (step_cost(longer) < HUGE_VAL) rule = std::move(longer);
    }
    return rule;
  }

 private:
  static constexpr double kFlopsPerMemoryByte = 100, kFlopsPerLinkByte = 1000, kLeastGain = 0.005;

  void append(std::vector<std::string>& rule, const std::vector<AtomId>& group) const {
    for (const AtomId a : group) rule.push_back(dims_->name(a));
  }

  [[nodiscard]] double step_cost(const std::vector<std::string>& rule) const {
    double cost = 0;
    if (rule.empty()) {
      for (const double c : cost_) cost += c;
      return cost;
    }
    try {
      const Sharding s = shard(training_, dims_, {{"tp", ranks_, rule, false}});
      for (std::size_t n = 0; n < cost_.size(); ++n) cost += s.choice(static_cast<NodeId>(n), 0) ? cost_[n] / ranks_ : cost_[n];
      for (const Conversion& c : s.conversions) {
        const double bytes = graph::size_of(training_.graph[c.tensor].type).value();
        for (const ConversionStep& step : c.steps) cost += kFlopsPerLinkByte * moved(step.kind) * bytes;
      }
      return cost;
    } catch (const Refusal&) {
      return HUGE_VAL;  // no operator can use it
    }
  }

  /// Bytes on the wire of one rank, of the whole tensor's.
  [[nodiscard]] double moved(ConversionKind kind) const {
    const double n = ranks_;
    switch (kind) {
      case ConversionKind::AllReduce:
        return 2 * (n - 1) / n;
      case ConversionKind::AllGather:
      case ConversionKind::ReduceScatter:
        return (n - 1) / n;
      case ConversionKind::AllToAll:
        return (n - 1) / (n * n);
      default:
        return 0;
    }
  }

  const graph::TrainingGraph& training_;
  std::shared_ptr<const LogicalDims> dims_;
  int ranks_;
  std::vector<double> cost_;
};

std::vector<std::string> names_of(const LogicalDims& dims, const std::vector<AtomId>& atoms) {
  std::vector<std::string> names;
  for (const AtomId a : atoms) names.push_back(dims.name(a));
  return names;
}

[[noreturn]] void refuse(const std::string& key, int degree, const std::string& why) {
  throw Refusal("plan: " + key + "=" + std::to_string(degree) + ": " + why);
}

/// Why tensor parallelism of so many ranks finds nothing to split.
std::string nothing_to_split(const LogicalDims& dims, const std::vector<std::vector<AtomId>>& groups) {
  const auto& atoms = dims.atoms();
  std::optional<AtomId> longest;
  for (const auto& group : groups)
    for (const AtomId a : group)
      if (!longest || atoms.size(a) > atoms.size(*longest)) longest = a;
  if (!longest) return "the model has no product with weights whose dimensions could be split";
  return "no operator can split a dimension of a weight so far: the longest, " + dims.name(*longest) + ", has " +
         std::to_string(atoms.size(*longest)) + " elements";
}

MeshAxis tensor_axis(const graph::TrainingGraph& training, const std::shared_ptr<const LogicalDims>& dims, const Plan& plan,
                     RuleBook& book) {
  const auto [known, fresh] = book.tensor.try_emplace(plan.tp);
  if (fresh) known->second = TensorRules(training, dims, plan.tp).choose(*book.use);
  MeshAxis axis{"tp", plan.tp, known->second, false};
  if (axis.dims.empty()) refuse("tp", plan.tp, nothing_to_split(*dims, book.use->weights));
  if (plan.sequence_parallel)
    for (auto& name : names_of(*dims, book.use->sequence)) axis.dims.push_back(std::move(name));
  return axis;
}

/// Without state of the optimizer there is nothing that stage 1 of ZeRO could shard. Where passes use weights of several ages, whole
/// ones are kept of each.
MeshAxis sharding_axis(const graph::TrainingGraph& training, const Plan& plan, const char* name, int degree) {
  MeshAxis axis{name, degree, {"batch"}, false};
  axis.deals_out_updates = plan.zero > 1 || (plan.zero == 1 && keeps_state(training));
  axis.stores_whole = plan.zero < 3 && schedule(plan.schedule).asynchronous;
  return axis;
}

/// Replicas, and inside groups of them those that shard their updates among each other.
void add_data_axes(std::vector<MeshAxis>& axes, const graph::TrainingGraph& training, const Plan& plan) {
  const int replicas = plan.dp / plan.ep;
  if (plan.has_shard_groups()) {
    axes.push_back({"dp", replicas / plan.shard_ranks(), {"batch"}, false});
    if (plan.shard_ranks() > 1) axes.push_back(sharding_axis(training, plan, "shard", plan.shard_ranks()));
  } else if (replicas > 1) {
    axes.push_back(sharding_axis(training, plan, "dp", replicas));
    if (has_uneven_shares(training.batch, plan)) axes.back().samples = samples_of_replicas(training.batch, plan);
  }
}

MeshAxis expert_axis(const LogicalDims& dims, const Plan& plan, const DimensionUse& use) {
  if (use.experts.empty())
    refuse("ep", plan.ep, "the model has no experts: no weight is used batch by batch along a dimension that its inputs have too");
  MeshAxis axis{"ep", plan.ep, names_of(dims, use.experts), false};
  axis.dims.emplace_back("batch");
  return axis;
}

MeshAxis sequence_axis(const LogicalDims& dims, const Plan& plan, const DimensionUse& use) {
  if (use.sequence.empty())
    refuse("cp", plan.cp, "the model has no sequence: no dimension but the batch counts the rows of its matrix products");
  MeshAxis axis{"cp", plan.cp, names_of(dims, use.sequence), false};
  axis.ring = plan.attention == AttentionForm::Ring;
  if (plan.attention != AttentionForm::AllToAll) return axis;
  if (dims.named("heads").empty()) refuse("cp", plan.cp, "attention=all-to-all: the model has no attention with heads");
  axis.weightless.emplace_back("heads");
  return axis;
}

/// The image axis at every resolution. `from_end` 0: width.
MeshAxis image_axis(const graph::TrainingGraph& training, const LogicalDims& dims, const char* name, int degree, std::size_t from_end) {
  MeshAxis axis{name, degree, {}, false};
  const auto& atoms = dims.atoms();
  for (const TensorId t : training.graph.inputs()) {
    const auto leaves = image_leaves(dims.of(t), atoms);
    if (leaves.size() <= from_end) continue;
    const AtomId family = atoms.family(leaves[leaves.size() - 1 - from_end]);
    for (std::size_t a = 0; a < atoms.count(); ++a) {
      const auto other = static_cast<AtomId>(a);
      if (atoms.find(other) == other && atoms.family(other) == family && !dims.name(other).empty()) axis.dims.push_back(dims.name(other));
    }
  }
  std::sort(axis.dims.begin(), axis.dims.end());
  axis.dims.erase(std::unique(axis.dims.begin(), axis.dims.end()), axis.dims.end());
  if (axis.dims.empty())
    refuse("spatial", degree, std::string("the model has no input whose ") + name + " a convolution or pool slides over");
  return axis;
}

}  // namespace

bool keeps_state(const graph::TrainingGraph& training) {
  return std::any_of(training.parameters.begin(), training.parameters.end(), [](const auto& p) { return !p.slots.empty(); });
}

DimensionUse use_of_dimensions(const graph::TrainingGraph& training, const LogicalDims& dims) { return UseFinder(training, dims).found(); }

std::vector<MeshAxis> sharding_axes(const graph::TrainingGraph& training, const std::shared_ptr<const LogicalDims>& dims, const Plan& plan,
                                    int micro_batches, RuleBook& book) {
  std::vector<MeshAxis> axes;
  if (!book.use && (plan.tp > 1 || plan.cp > 1 || plan.ep > 1)) book.use = use_of_dimensions(training, *dims);
  add_data_axes(axes, training, plan);
  // Micro-batches are the innermost axis, but for experts: a micro-batch is spread over their ranks, and comes back together for it.
  MeshAxis time{"micro-batch", micro_batches, {"batch"}, true};
  if (has_uneven_shares(training.batch, plan)) time.counts = micro_batches_of_replicas(training.batch, plan);
  if (plan.ep > 1 && micro_batches > 1) axes.push_back(time);
  if (plan.ep > 1) axes.push_back(expert_axis(*dims, plan, *book.use));
  if (plan.tp > 1) axes.push_back(tensor_axis(training, dims, plan, book));
  if (plan.cp > 1) {
    // Axes nest in their order. Where both split heads, tp's blocks stay and cp splits each; where both split the sequence, tp gathers
    // its part of cp's block more often.
    const bool deals_out_heads = plan.attention == AttentionForm::AllToAll;
    axes.insert(axes.end() - (plan.tp > 1 && !deals_out_heads ? 1 : 0), sequence_axis(*dims, plan, *book.use));
  }
  const char* const names[] = {"depth", "height", "width"};
  for (std::size_t i = 0; i < 3; ++i) {
    if (plan.spatial[i] > 1) axes.push_back(image_axis(training, *dims, names[i], plan.spatial[i], 2 - i));
  }
  if (plan.ep == 1 && micro_batches > 1) axes.push_back(time);
  for (MeshAxis& axis : axes)
    axis.own_statistics = (plan.bn != BatchStatistics::Batch && axis.in_time) ||
                          (plan.bn == BatchStatistics::Local && (axis.name == "dp" || axis.name == "shard"));
  return axes;
}

}  // namespace rehearsal::plan
