#include "predict/frameworks/folded_model.hpp"

#include <algorithm>
#include <cmath>

#include "graph/builder.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using graph::TensorId;

constexpr int kKept = 2;  // the first block may follow something else than its like; the second one does not

std::vector<graph::Span> spans_of(const graph::Graph& g, Grain grain) {
  auto spans = graph::repeated_spans(g);
  if (grain == Grain::Blocks) return spans;
  std::vector<graph::Span> single;
  for (const auto& span : spans) {
    const std::size_t end = span.first + span.length * static_cast<std::size_t>(span.repeats);
    if (span.recurrence)
      single.push_back(span);
    else
      for (std::size_t n = span.first; n < end; ++n) single.push_back({n, 1, 1});
  }
  return single;
}

bool is_chain(const graph::Span& span) { return span.chain > 1; }

/// Pieces that a pipeline can be cut into: repetitions of blocks, or single nodes of a model without any; a recurrence stays in one.
std::int64_t pipeline_pieces(const std::vector<graph::Span>& spans) {
  const bool blocks = std::ranges::any_of(spans, is_chain);
  std::int64_t pieces = 0;
  for (const auto& span : spans) pieces += span.recurrence ? 1 : blocks ? span.repeats : static_cast<std::int64_t>(span.length);
  return pieces;
}

/// Joins what follows a chain of blocks to the last of those that are kept.
class Folding {
 public:
  explicit Folding(const graph::Graph& whole) : whole_(whole), builder_(whole), consumers_(whole.consumers()), outputs_(whole.outputs()) {}

  void fold(const graph::Span& span) {
    for (int repetition = kKept; repetition < span.repeats; ++repetition)
      for (std::size_t offset = 0; offset < span.length; ++offset) {
        const auto& gone = whole_.nodes()[span.first + static_cast<std::size_t>(repetition) * span.length + offset];
        const auto& kept = whole_.nodes()[span.first + (kKept - 1) * span.length + offset];
        for (std::size_t o = 0; o < gone.outputs.size(); ++o) replace(span, gone.outputs[o], kept.outputs[o]);
      }
  }

  graph::Graph folded(graph::Renumbering& numbers) && {
    builder_.set_outputs(outputs_);
    return std::move(builder_).build(&numbers);
  }

 private:
  /// Only what is read outside the chain: everything inside it goes.
  void replace(const graph::Span& span, TensorId gone, TensorId kept) {
    if (gone == TensorId::None) return;
    std::replace(outputs_.begin(), outputs_.end(), gone, kept);
    const std::size_t end = span.first + span.length * static_cast<std::size_t>(span.repeats);
    const auto& readers = consumers_[graph::index(gone)];
    if (std::any_of(readers.begin(), readers.end(), [&](graph::NodeId n) { return graph::index(n) >= end; }))
      builder_.replace_uses(gone, kept);
  }

  const graph::Graph& whole_;
  graph::GraphBuilder builder_;
  std::vector<std::vector<graph::NodeId>> consumers_;
  std::vector<TensorId> outputs_;
};

std::int64_t batch_of(const graph::Graph& g) {
  for (const auto input : g.inputs())
    if (!g[input].type.shape.empty()) return g[input].type.shape.front();
  return 1;
}

}  // namespace

FoldedModel::FoldedModel(graph::Graph whole, Grain grain) : whole_(std::move(whole)), spans_(spans_of(whole_, grain)) {
  Folding folding(whole_);
  const bool recurrent = Flow(whole_).recurrent();  // a layer's steps are counted, so all of them must be there
  for (const auto& span : spans_)
    if (!recurrent) folding.fold(span);
  graph::Renumbering numbers;
  training_.graph = std::move(folding).folded(numbers);
  training_.batch = batch_of(whole_);
  constexpr auto kDropped = ~std::size_t{0};
  for (const auto& span : spans_) {
    auto& nodes = nodes_.emplace_back();
    const auto shown = span.first + static_cast<std::size_t>(std::min(kKept, span.repeats) - 1) * span.length;
    for (std::size_t offset = 0; offset < span.length; ++offset) {
      const auto number = numbers(static_cast<graph::NodeId>(shown + offset));
      nodes.push_back(number == graph::NodeId::None ? kDropped : graph::index(number));
    }
  }
  flow_ = std::make_unique<const Flow>(training_.graph);
  dims_ = std::make_shared<const graph::LogicalDims>(training_.graph);
}

bool FoldedModel::read_by_all(std::size_t span, std::size_t offset, std::size_t input) const {
  const auto& s = spans_[span];
  if (s.repeats == 1) return false;
  const auto &one = whole_.nodes()[s.first + offset].inputs, &other = whole_.nodes()[s.first + s.length + offset].inputs;
  return input < std::min(one.size(), other.size()) && one[input] == other[input];
}

namespace {

int replicas_of(std::int64_t batch, const Degrees& d) {
  return d.ep * static_cast<int>(std::max(1.0, std::floor(static_cast<double>(batch) / std::max(1.0, d.micro_batch) / d.ep)));
}

}  // namespace

double FoldedModel::samples(const Degrees& d) const { return static_cast<double>(batch()) / replicas_of(batch(), d); }

plan::Sharding FoldedModel::shard(const Degrees& d) const {
  plan::Plan plan;
  plan.dp = replicas_of(batch(), d);
  plan.tp = d.tp;
  plan.cp = d.cp;
  plan.ep = d.ep;
  plan.sequence_parallel = d.sequence_parallel;
  auto axes = plan::sharding_axes(training_, dims_, plan, 1, *rules_);
  if (d.whole_experts) deal_out_experts(axes);
  return plan::shard(training_, dims_, std::move(axes));
}

/// Ranks of tensor parallelism have experts of their own instead of parts of each.
void FoldedModel::deal_out_experts(std::vector<plan::MeshAxis>& axes) const {
  const auto tensor = std::ranges::find(axes, "tp", &plan::MeshAxis::name);
  if (tensor == axes.end()) return;
  if (!rules_->use) rules_->use = plan::use_of_dimensions(training_, *dims_);
  for (const auto inside : rules_->use->of_experts) std::erase(tensor->dims, dims_->name(inside));
  // First of all: what comes first decides what an operator splits, and tokens of a split sequence are rows of experts, too.
  for (const auto experts : rules_->use->experts) tensor->dims.insert(tensor->dims.begin(), dims_->name(experts));
}

namespace {

/// Of scores [batch, heads..., queries, keys].
std::int64_t heads_of(const graph::Graph& g, const AttentionCore& core) {
  const auto& scores = g[g.nodes()[core.softmax].outputs.front()].type.shape;
  std::int64_t heads = 1;
  for (std::size_t d = 1; d + 2 < scores.size(); ++d) heads *= scores[d];
  return heads;
}

/// Those that a router sends tokens to, which frameworks spread over ranks. Groups of a convolution, and heads with a weight of their own,
/// are used batch by batch as well, and no framework spreads them.
std::int64_t experts_of(const graph::Graph& g, const plan::DimensionUse& use, const graph::Atoms& atoms) {
  const auto* router = router_of(g);
  if (router == nullptr) return 1;
  const auto experts = g[router->inputs[0]].type.shape.back();
  return std::ranges::any_of(use.experts, [&](graph::AtomId atom) { return atoms.size(atom) == experts; }) ? experts : 1;
}

}  // namespace

SplitLimits FoldedModel::limits() const {
  if (!rules_->use) rules_->use = plan::use_of_dimensions(training_, *dims_);
  const auto& use = *rules_->use;
  const auto& atoms = dims_->atoms();
  SplitLimits limits;
  limits.experts = experts_of(graph(), use, atoms);
  if (!use.sequence.empty()) limits.sequence = atoms.size(use.sequence.front());
  for (const auto& span : spans_) {
    limits.blocks = std::max<std::int64_t>(limits.blocks, span.chain);
    if (span.chain > 1) limits.all_blocks += span.repeats;
  }
  for (const auto& core : flow().cores())
    if (const auto heads = heads_of(graph(), core); core.causal && (limits.heads == 0 || heads < limits.heads)) limits.heads = heads;
  limits.stages = has_convolution() ? static_cast<std::int64_t>(graph().nodes().size()) : limits.blocks;
  if (!has_convolution() && std::ranges::any_of(spans_, &graph::Span::recurrence)) limits.stages = pipeline_pieces(spans_);
  limits.even_replicas = true;
  using Rule = plan::RecomputeRule;
  limits.recompute = {{}, {Rule::Selective}, {Rule::SelectiveOps}, {Rule::Full}};
  limits.some_blocks = true;
  limits.weights = !use.weights.empty();
  limits.batch_statistics = std::any_of(graph().nodes().begin(), graph().nodes().end(),
                                        [](const graph::Node& n) { return graph::schema(n).name == "BatchNormSums"; });
  return limits;
}

Grain grain_of(const FoldedModel& model, const FrameworkJob& job) {
  if (job.plan.pp == 1) return Grain::Blocks;
  if (model.has_convolution()) return Grain::Nodes;
  return std::ranges::any_of(model.spans(), is_chain) ? Grain::Blocks : Grain::Nodes;
}

}  // namespace rehearsal::predict::frameworks
