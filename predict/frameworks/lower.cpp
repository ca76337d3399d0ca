#include "predict/frameworks/lower.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "predict/frameworks/node_rows.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using costmodel::CollectiveKind;
using graph::TensorId;

/// Weights that a part's nodes use.
class WeightCounter {
 public:
  explicit WeightCounter(const RowSetting& setting) : s_(setting), uses_(graph::parameter_uses(setting.model.graph())) {
    if (s_.job.recipe.optimizer != "none") optimizer_ = &graph::optimizer_row(s_.job.recipe.optimizer);
    for (std::size_t a = 0; a < s_.sharding.axes.size(); ++a)
      if (s_.sharding.axes[a].name == "ep") expert_axis_ = a;
  }

  void count(Part& part, std::size_t node, std::size_t offset) {
    Weights first_used;
    const auto& inputs = s_.model.graph().nodes()[node].inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto t = inputs[i];
      if (t == TensorId::None || !graph::is_weight(s_.model.graph()[t].role)) continue;
      const bool trained = s_.model.graph()[t].role == graph::TensorRole::Parameter;
      const Weights elements = trained ? with_update(t) : Weights{s_.elements(t)};
      const auto [known, fresh] = part_of_.try_emplace(t, part.span);
      if (!fresh) {
        if (known->second != part.span) part.shared_weights += elements;
        continue;
      }
      const bool common = part.repeated && s_.model.read_by_all(part.span, offset, i);
      const double share = common ? 1.0 / part.repeats : 1;
      first_used += share * elements;
      if (common) part.common_weights += elements;
      part.trained_tensors += trained ? share : 0;
      if (expert_axis_ && s_.sharding.layout(t)[*expert_axis_].split()) part.expert_weights += share * elements;
    }
    part.weights_of_node.push_back(first_used);
    part.weights += first_used;
  }

 private:
  /// Ranks that share out a weight share out its update.
  [[nodiscard]] Weights with_update(TensorId t) const {
    const double elements = s_.elements(t);
    if (optimizer_ == nullptr) return {elements, elements};
    const auto update = graph::update_size(*optimizer_, uses_[graph::index(t)], s_.job.recipe.without());
    const double share = update.elements > 0 ? elements / update.elements : 0;
    return {elements, elements, share * update.state, share * update.moved, share * update.product_flops};
  }

  const RowSetting& s_;
  std::vector<graph::ParameterUse> uses_;
  const graph::OptimizerRow* optimizer_ = nullptr;
  std::optional<std::size_t> expert_axis_;
  std::map<TensorId, std::size_t> part_of_;
};

/// Loss on the model's result: log-softmax, gather, their gradients; in fp32 for 16-bit logits.
void add_loss(const RowSetting& s, ModelParts& model) {
  struct LossPasses {
    double forward, backward;
  };
  static constexpr std::array<LossPasses, 3> kBytesPerLogit{{{20, 14}, {16, 10}, {12, 8}}};
  auto& part = model.parts.back();
  const auto last = static_cast<std::uint32_t>(part.weights_of_node.size() - 1);
  for (const auto output : s.model.graph().outputs()) {
    const double logits = s.elements(output);
    const auto& passes = kBytesPerLogit[static_cast<std::size_t>(elementwise_fusion(s.job))];
    part.forward.push_back({{costmodel::RateKind::Elementwise, 0, passes.forward * logits, 1, 5}, std::nullopt, last, false});
    part.backward.insert(part.backward.begin(),
                         {{costmodel::RateKind::Elementwise, 0, passes.backward * logits, 1, 4}, std::nullopt, last, false});
    model.logits += logits;
  }
}

std::optional<ExchangeAxis> axis_of(const plan::MeshAxis& axis) {
  if (axis.name == "tp") return ExchangeAxis::Tensor;
  if (axis.name == "ep") return ExchangeAxis::Expert;
  return std::nullopt;  // replicas exchange gradients, which a step does once; keys and values of context parallelism go round beside
                        // attention
}

std::optional<CollectiveKind> kind_of(plan::ConversionKind kind) {
  switch (kind) {
    case plan::ConversionKind::AllReduce:
      return CollectiveKind::AllReduce;
    case plan::ConversionKind::ReduceScatter:
      return CollectiveKind::ReduceScatter;
    case plan::ConversionKind::AllGather:
      return CollectiveKind::AllGather;
    case plan::ConversionKind::AllToAll:
      return CollectiveKind::AllToAll;
    default:
      return std::nullopt;
  }
}

/// What the backward pass exchanges where the forward pass exchanged `kind` (Shoeybi et al. 2019, Korthikanti et al. 2022).
CollectiveKind mirrored(CollectiveKind kind) {
  if (kind == CollectiveKind::AllGather) return CollectiveKind::ReduceScatter;
  return kind == CollectiveKind::ReduceScatter ? CollectiveKind::AllGather : kind;
}

/// Exchanges of the forward pass behind the node that makes what is exchanged, and their mirror images before its backward kernels.
class ExchangeCollector {
 public:
  ExchangeCollector(const RowSetting& s, Part& part) : s_(s), part_(part) {}

  void add(const plan::Conversion& c, std::uint32_t offset) {
    const auto& tensor = s_.model.graph()[c.tensor];
    if (c.phase != graph::Phase::Forward || !is_float(tensor.type.dtype) || !s_.model.flow().activation(c.tensor)) return;
    for (const auto& step : c.steps) {
      const auto axis = axis_of(s_.sharding.axes[step.axis]);
      const auto kind = kind_of(step.kind);
      const double used = axis == ExchangeAxis::Tensor ? s_.used_share(c.tensor) : 1;  // of the experts' own, see expert_seconds()
      if (axis == ExchangeAxis::Tensor && travels_once(c)) continue;
      if (axis && kind) insert({*kind, *axis, used * bytes_of(c, *kind) / alike(c, *axis)}, offset);
    }
  }

  /// Keys and values go round a ring of blocks beside the attention (Liu et al. 2023).
  void add_ring(const AttentionCore& core, std::uint32_t offset) {
    const auto& first = s_.model.graph().nodes()[core.first_product];
    const auto& second = s_.model.graph().nodes()[core.second_product];
    insert({CollectiveKind::Shift, ExchangeAxis::Context, s_.bytes(first.inputs[1]) + s_.bytes(second.inputs[1])}, offset);
  }

 private:
  /// Where tensor parallelism leaves experts whole, a token goes to theirs and back among all ranks that share them, and nowhere else.
  [[nodiscard]] bool travels_once(const plan::Conversion& c) const {
    const auto to_experts = [&](const plan::ConversionStep& step) { return axis_of(s_.sharding.axes[step.axis]) == ExchangeAxis::Expert; };
    return s_.job.plan.has_whole_experts() && std::ranges::any_of(c.steps, to_experts);
  }

  /// Ranks of tensor parallelism that have the same tokens for the experts: of a split sequence each sends its part, and what arrives is
  /// gathered within the group (Megatron-Core's dispatchers).
  [[nodiscard]] double alike(const plan::Conversion& c, ExchangeAxis axis) const {
    if (axis != ExchangeAxis::Expert || !s_.job.plan.sequence_parallel) return 1;
    const auto tensor = std::ranges::find(s_.sharding.axes, "tp", &plan::MeshAxis::name);
    if (tensor == s_.sharding.axes.end()) return 1;
    const bool split = c.from[static_cast<std::size_t>(tensor - s_.sharding.axes.begin())].split();
    return split ? 1 : static_cast<double>(tensor->size);
  }

  /// Of the whole vector: what every rank has before it is scattered, or after it is gathered.
  [[nodiscard]] double bytes_of(const plan::Conversion& c, CollectiveKind kind) const {
    const auto& layout = kind == CollectiveKind::AllGather ? c.to : c.from;
    const double elements = static_cast<double>(graph::element_count(s_.sharding.local_shape(c.tensor, layout, s_.at)));
    return s_.own_share(s_.model.graph()[c.tensor].producer) * elements * s_.precision.element_bytes;
  }

  void insert(const Exchange& forward, std::uint32_t offset) {
    const auto behind = std::find_if(part_.forward.begin(), part_.forward.end(), [&](const PassStep& p) { return p.node > offset; });
    part_.forward.insert(behind, PassStep{{}, forward, offset, false});
    auto backward = forward;
    backward.kind = mirrored(forward.kind);
    const auto before = std::find_if(part_.backward.begin(), part_.backward.end(), [&](const PassStep& p) { return p.node <= offset; });
    part_.backward.insert(before, PassStep{{}, backward, offset, false});
  }

  const RowSetting& s_;
  Part& part_;
};

void add_exchanges(const RowSetting& s, Part& part, const std::vector<std::size_t>& nodes) {
  ExchangeCollector exchanges(s, part);
  for (const auto& c : s.sharding.conversions) {
    const auto producer = s.model.graph()[c.tensor].producer;
    const auto at = std::find(nodes.begin(), nodes.end(), producer == graph::NodeId::None ? ~std::size_t{0} : graph::index(producer));
    if (producer != graph::NodeId::None && at != nodes.end()) exchanges.add(c, static_cast<std::uint32_t>(at - nodes.begin()));
  }
  if (s.job.plan.cp == 1) return;
  for (const auto& core : s.model.flow().cores())
    if (const auto at = std::find(nodes.begin(), nodes.end(), core.softmax); at != nodes.end())
      exchanges.add_ring(core, static_cast<std::uint32_t>(at - nodes.begin()));
}

double boundary_of(const RowSetting& s, std::size_t last_node) {
  const auto& outputs = s.model.graph().nodes()[last_node].outputs;
  return outputs.empty() ? 0 : s.bytes(outputs[0]);
}

Part part_of(const RowSetting& s, std::size_t span, WeightCounter& weights, CountedTensors& counted) {
  Part part;
  part.span = span;
  part.repeats = s.model.spans()[span].repeats;
  part.repeated = s.model.spans()[span].chain > 1;
  std::vector<std::size_t> nodes;
  RowCollector rows(s, part, counted);
  for (std::uint32_t offset = 0; offset < s.model.spans()[span].length; ++offset) {
    const auto node = s.model.node(span, offset);
    nodes.push_back(node);
    if (node >= s.model.graph().nodes().size()) {  // nothing needs it
      part.weights_of_node.emplace_back();
      continue;
    }
    rows.add(node, offset);
    weights.count(part, node, offset);
    part.boundary_bytes = boundary_of(s, node);
  }
  rows.finish();
  add_exchanges(s, part, nodes);
  return part;
}

/// The first step of a recurrence, which comes last in the backward pass, has its weights: they are there once, and only then their
/// gradients are whole.
void add_part(ModelParts& model, Part part, bool recurrence) {
  auto further = part;
  if (recurrence) part.repeats = 1;
  model.parts.push_back(std::move(part));
  if (!recurrence) return;
  further.first_repetition = 1;
  --further.repeats;
  further.weights = further.expert_weights = further.shared_weights = {};
  further.weights_of_node.assign(further.weights_of_node.size(), {});
  further.trained_tensors = 0;
  model.parts.push_back(std::move(further));
}

/// Rows of tokens that all experts together compute, as the model has it.
std::int64_t slots_of(const graph::Graph& g) {
  for (const auto& node : g.nodes()) {
    if (graph::schema(node).family != graph::CostFamily::MatMul || node.inputs.size() < 2) continue;
    const auto& x = g[node.inputs[0]].type.shape;
    if (graph::is_weight(g[node.inputs[1]].role) && of_experts(g, node) && !x.empty()) return graph::element_count(x) / x.back();
  }
  return 0;
}

/// Sets what of the rows of experts is used, and the tokens of the rank whose experts are busiest over the rows that the model has for a
/// mean one. GPU frameworks of these years drop no token and compute no empty row: of a capacity beyond an even share no more than what is
/// chosen is used. Throws Refusal for an uneven load where the model drops what exceeds less than that: there all have as many.
void set_expert_load(const graph::Graph& g, const FrameworkJob& job, ModelParts& model) {
  const auto& load = job.recipe.expert_load;
  const auto* router = router_of(g);
  if (router == nullptr) {
    if (load.balanced()) return;
    throw Refusal("imbalance: tokens are spread unevenly over experts only where there are some, and the model has none");
  }
  const auto experts = g[router->inputs[0]].type.shape.back();
  const double choices = static_cast<double>(graph::element_count(g[router->outputs[0]].type.shape)),
               slots = static_cast<double>(slots_of(g));
  model.used_slots = model.expert_load = slots > choices ? choices / slots : 1;
  if (load.balanced()) return;
  if (slots < choices)
    throw Refusal("imbalance: every expert computes its capacity of " + std::to_string(slots_of(g) / experts) +
                  " tokens, however many choose it; build the model with capacity=100 to have those that do");
  model.expert_load *= load.busiest(experts, std::max<std::int64_t>(1, router->attributes.integer("k", 1)), job.plan.ep);
}

/// The work of the model's samples on this rank as that of `share` times as many.
void share_out(Part& part, double share, bool exchanges) {
  for (auto* pass : {&part.forward, &part.backward})
    for (auto& step : *pass) {
      if (step.exchange && exchanges) step.exchange->bytes *= share;
      if (!step.once_a_step) step.row.work *= share, step.row.bytes *= share;
    }
  part.kept.others *= share;
  part.kept.attention *= share;
  part.widest_gradients *= share;
  part.boundary_bytes *= share;
}

}  // namespace

Degrees degrees_of(const FrameworkJob& job) {
  const auto& p = job.plan;
  const bool whole = p.has_whole_experts();
  return {job.micro_batch, p.tp, p.cp, whole ? p.ep / p.tp : p.ep, p.sequence_parallel && p.tp > 1, whole};
}

ModelParts parts_of(const FoldedModel& folded, const FrameworkJob& job, std::size_t group) {
  const auto degrees = degrees_of(job);
  const auto sharding = folded.shard(degrees);
  // Ranks that share experts and sequences, too, have their samples together: more than a batch deals out to each.
  const double samples = folded.samples(degrees);
  RowSetting setting(folded, sharding, job, group);
  ModelParts model;
  model.image = folded.has_convolution();
  model.recurrent = folded.flow().recurrent();
  model.fused_attention = setting.fused_attention && !folded.flow().cores().empty();
  model.capture = setting.capture;
  const auto* router = router_of(folded.graph());
  model.expert_choices = router == nullptr ? 0 : static_cast<double>(router->attributes.integer("k", 0));
  set_expert_load(folded.graph(), job, model);
  setting.used_slots = model.used_slots;
  setting.expert_load = model.expert_load /= std::min(1.0, samples);
  WeightCounter weights(setting);
  CountedTensors counted;
  for (std::size_t span = 0; span < folded.spans().size(); ++span) {
    // A block keeps all that it reads. A single node shares a stage with the others that read the same, but for the few at its cuts.
    if (folded.spans()[span].length > 1) counted = {};
    add_part(model, part_of(setting, span, weights, counted), folded.spans()[span].recurrence);
  }
  add_loss(setting, model);
  if (const double share = job.micro_batch / std::max(1.0, samples); share != 1)
    for (auto& part : model.parts) share_out(part, share, job.micro_batch >= 1);
  for (const auto input : folded.graph().inputs())
    if (const auto& type = folded.graph()[input].type; type.shape.size() == 2 && is_integer(type.dtype))
      model.tokens_per_sample = std::max(model.tokens_per_sample, static_cast<double>(type.shape[1]));
  return model;
}

}  // namespace rehearsal::predict::frameworks
