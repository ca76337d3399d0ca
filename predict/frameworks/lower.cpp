#include "predict/frameworks/lower.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "predict/frameworks/node_rows.hpp"
#include "predict/frameworks/spans.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using graph::TensorId;

/// Parameters that a span's nodes use for the first time, by what tensor parallelism leaves of them on a rank.
void count_parameters(const RowSetting& s, Part& part, std::set<TensorId>& counted) {
  for (std::size_t n = part.span.first; n < part.span.first + part.span.length; ++n) {
    const auto& node = s.graph.nodes()[n];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto t = node.inputs[i];
      if (t == TensorId::None || s.graph[t].role != graph::Role::Parameter || !counted.insert(t).second) continue;
      const bool table = graph::schema(node).family == graph::CostFamily::Gather;
      const bool split = s.flow.role(n) != MatmulRole::None || table || (i > 0 && s.flow.split(node.inputs[0]));
      part.parameters += static_cast<double>(graph::element_count(s.graph[t].type.shape)) / (split ? s.job.plan.tp : 1) /
                         (s.graph[t].type.shape.size() > 2 && !s.flow.has_convolution() ? s.job.plan.ep : 1);
      part.parameter_tensors += 1;
    }
  }
}

/// Loss on the model's result: log-softmax, gather, their gradients; in fp32 for 16-bit logits.
void add_loss(const RowSetting& s, ModelRows& model) {
  struct LossPasses {
    double forward, backward;
  };
  static constexpr std::array<LossPasses, 3> kBytesPerLogit{{{20, 14}, {16, 10}, {12, 8}}};
  auto& part = model.parts.back();
  for (const auto output : s.graph.outputs()) {
    const auto& shape = s.graph[output].type.shape;
    const double logits = static_cast<double>(graph::element_count(shape)) / (s.flow.split(output) ? s.job.plan.tp : 1);
    const auto& passes = kBytesPerLogit[static_cast<std::size_t>(s.job.framework.elementwise_fusion)];
    part.forward.push_back({costmodel::RateKind::Elementwise, 0, passes.forward * logits, 1, 5});
    part.backward.push_back({costmodel::RateKind::Elementwise, 0, passes.backward * logits, 1, 4});
    model.logits += logits;
  }
}

/// Repeated blocks, or single nodes where stages of a pipeline must be cut between them.
std::vector<Span> spans_of(const graph::Graph& g, const AnalyticJob& job, bool image) {
  auto spans = repeated_spans(g);
  const bool blocks = !image && std::any_of(spans.begin(), spans.end(), [&](const Span& s) { return s.repeats >= job.plan.pp; });
  if (job.plan.pp == 1 || blocks) return spans;
  const std::size_t nodes = spans.empty() ? 0 : spans.back().first + spans.back().length * static_cast<std::size_t>(spans.back().repeats);
  spans.clear();
  for (std::size_t n = 0; n < nodes; ++n) spans.push_back({n, 1, 1});
  return spans;
}

double boundary_of(const RowSetting& s, const Part& part) {
  const auto& last = s.graph.nodes()[part.span.first + part.span.length - 1];
  return last.outputs.empty()
             ? 0
             : static_cast<double>(graph::element_count(s.graph[last.outputs[0]].type.shape)) * s.job.precision.element_bytes;
}

}  // namespace

ModelRows lower_to_rows(const graph::Graph& g, const AnalyticJob& job) {
  const Flow flow(g);
  const RowSetting setting{g, flow, job, costmodel::fused_attention(job.framework, job.device())};
  ModelRows model;
  model.image = flow.has_convolution();
  model.recurrent = flow.recurrent();
  model.fused_attention = setting.fused_attention && !flow.cores().empty();
  std::set<TensorId> counted;
  for (const auto& span : spans_of(g, job, model.image)) {
    Part part;
    part.span = span;
    part.repeated = span.repeats > 1;
    RowCollector rows(setting, part);
    for (std::size_t n = span.first; n < span.first + span.length; ++n) rows.add(n);
    count_parameters(setting, part, counted);
    part.boundary_bytes = boundary_of(setting, part);
    model.parts.push_back(std::move(part));
  }
  add_loss(setting, model);
  for (const auto input : g.inputs())
    if (g[input].type.shape.size() == 2 && is_integer(g[input].type.dtype))
      model.tokens_per_sample = std::max(model.tokens_per_sample, static_cast<double>(g[input].type.shape[1]) * job.plan.cp);
  return model;
}

}  // namespace rehearsal::predict::frameworks
