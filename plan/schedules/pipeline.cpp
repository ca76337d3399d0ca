#include "plan/schedules/pipeline.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::Phase;
using graph::TensorId;

namespace {

/// Backward nodes from which no way leads to another part: gradients of weights, mostly. Nodes stand in an order in which they can run.
std::vector<bool> waiting_nodes(const graph::Graph& g, const std::vector<int>& part) {
  std::vector<bool> hurries(g.nodes().size(), false);
  for (std::size_t n = g.nodes().size(); n-- > 0;) {
    const auto& node = g.nodes()[n];
    if (node.phase == Phase::Forward) continue;
    for (auto t : node.inputs) {
      if (t == TensorId::None || g[t].producer == NodeId::None) continue;
      const auto producer = graph::index(g[t].producer);
      if (hurries[n] || part[producer] != part[n]) hurries[producer] = true;
    }
  }
  std::vector<bool> waits(g.nodes().size(), false);
  for (std::size_t n = 0; n < waits.size(); ++n) waits[n] = g.nodes()[n].phase == Phase::Backward && !hurries[n];
  return waits;
}

}  // namespace

Pipeline pipeline_of(const graph::TrainingGraph& training, const Plan& plan, int micro_batches, StageAssignment& parts) {
  Pipeline pipeline;
  pipeline.schedule = &schedule_of(plan);
  pipeline.shape = pipeline_shape(plan, micro_batches);
  if (pipeline.schedule->placement == ChunkPlacement::Both) {
    pipeline.copies = pipeline.shape.chunks;
    pipeline.shape.chunks = 1;
  }
  pipeline.places = places_of_parts(*pipeline.schedule, pipeline.shape);
  pipeline.part_of_node = parts.of_node;
  for (auto& part : parts.of_node)
    if (part != kAnyStage) part = pipeline.places[static_cast<std::size_t>(part)].stage;
  if (pipeline.schedule->splits_backward) pipeline.can_wait = waiting_nodes(training.graph, pipeline.part_of_node);
  return pipeline;
}

}  // namespace rehearsal::plan
