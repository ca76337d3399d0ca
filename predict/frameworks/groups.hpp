#pragma once
#include "costmodel/collective_library.hpp"
#include "plan/plan.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::predict::frameworks {

/// Where the ranks of each kind of parallelism lie on a platform: rank 0's group, or one that lies on more nodes.
struct RankGroups {
  costmodel::Group tensor, context, expert;
  costmodel::Group replicas;          ///< that sum their gradients: data and context parallel ones
  costmodel::Group shards, copies;    ///< of these: over which `zero` shards, and those that have the same part of it
  bool stages_between_nodes = false;  ///< a stage and the next one are on different nodes
  int nodes_of_stage = 1;             ///< that send to the next one
  int nodes = 1;                      ///< that the plan uses
};
[[nodiscard]] RankGroups groups_of(const platforms::Platform&, const plan::Plan&);

/// What replicas of one kind run on.
struct StageDevices {
  std::vector<std::size_t> groups;  ///< of nodes, by stage
  int ranks = 0;                    ///< of one stage of all these replicas
  int first_rank = 0;               ///< of their first stage
};
/// Replicas that run on the same devices are one entry. One entry of zeros where all nodes are alike.
[[nodiscard]] std::vector<StageDevices> device_groups_of_stages(const platforms::Platform&, const plan::Plan&);

}  // namespace rehearsal::predict::frameworks
