#pragma once
// What the schedule of a pipeline asks of lowering: the chunk of every node, and which backward nodes nobody waits for.

#include <vector>

#include "graph/training.hpp"
#include "plan/schedules/model_chunks.hpp"
#include "plan/schedules/stages.hpp"

namespace rehearsal::plan {

struct Pipeline {
  const ScheduleRow* schedule = nullptr;
  PipelineShape shape;            ///< of one copy of the model
  int copies = 1;                 ///< ChunkPlacement::Both: 2, which go opposite ways and share out the micro-batches
  std::vector<PartPlace> places;  ///< by part
  std::vector<int> part_of_node;  ///< kAnyStage where every stage has it
  std::vector<bool> can_wait;     ///< backward nodes whose results stay in their part; empty unless the schedule splits the backward pass

  [[nodiscard]] int chunk(graph::NodeId n) const {
    const int part = part_of_node[graph::index(n)];
    return part < 0 ? 0 : places[static_cast<std::size_t>(part)].chunk;
  }
};

/// `parts`: the stages of a pipeline with as many stages as the model has parts. Changes them to the stages that the parts lie on.
[[nodiscard]] Pipeline pipeline_of(const graph::TrainingGraph&, const Plan&, int micro_batches, StageAssignment& parts);

}  // namespace rehearsal::plan
