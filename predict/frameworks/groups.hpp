#pragma once
#include <map>
#include <string_view>
#include <vector>

#include "costmodel/collective_library.hpp"
#include "plan/plan.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::predict::frameworks {

/// Kinds of nodes: indices of Platform::nodes, in ascending order.
using NodeKinds = std::vector<std::size_t>;

/// A group of ranks, and the kinds of nodes that it lies on.
struct PlacedGroup : costmodel::Group {
  NodeKinds kinds;
  friend bool operator==(const PlacedGroup&, const PlacedGroup&) = default;
};

/// Where the groups lie that ranks of one stage on one kind of nodes are in, of each kind of parallelism: of groups that lie differently
/// the one that the others wait for.
struct RankGroups {
  PlacedGroup tensor, context, expert;
  PlacedGroup replicas;               ///< that sum their gradients: data and context parallel ones
  PlacedGroup shards, copies;         ///< of these: over which `zero` shards, and those that have the same part of it
  PlacedGroup expert_copies;          ///< that have a rank's experts: over which `zero` shards those
  bool stages_between_nodes = false;  ///< a stage and the next one on nodes of this kind are on different nodes
  int nodes_of_stage = 1;             ///< that send to the next one
  int nodes = 1;                      ///< that the plan uses
  friend bool operator==(const RankGroups&, const RankGroups&) = default;
};

/// Ranks over which `zero` shards what every replica has.
[[nodiscard]] int sharding_ranks(const plan::Plan&);
/// Ranks that have copies of a rank's experts, itself included, over which `zero` shards those; 1: every rank has its own experts whole.
[[nodiscard]] int expert_copies(const plan::Plan&);
/// The axes of a mesh along which they lie: `dp`, and `cp` unless that shares the experts out.
[[nodiscard]] std::vector<std::string_view> axes_of_expert_copies(const plan::Plan&);

/// A stage of a pipeline on one kind of nodes.
struct StagePlace {
  int stage = 0;
  std::size_t kind = 0;
  friend auto operator<=>(const StagePlace&, const StagePlace&) = default;
};
/// Whether nodes differ in nothing but their name and how many there are: a file may say those of one kind in several groups.
[[nodiscard]] bool are_alike(const platforms::NodeGroup&, const platforms::NodeGroup&);
/// Of every stage on every kind of nodes that it has ranks on. Nodes that the plan leaves idle count for nothing.
[[nodiscard]] std::map<StagePlace, RankGroups> groups_by_place(const platforms::Platform&, const plan::Plan&);
[[nodiscard]] RankGroups groups_of(const platforms::Platform&, const plan::Plan&, StagePlace = {});

/// What replicas of one kind run on.
struct StageDevices {
  std::vector<std::size_t> groups;  ///< of nodes, by stage
  int ranks = 0;                    ///< of one stage of all these replicas
  int first_rank = 0;               ///< of their first stage
};
/// Replicas that run on the same devices are one entry. One entry of zeros where all nodes are alike.
[[nodiscard]] std::vector<StageDevices> device_groups_of_stages(const platforms::Platform&, const plan::Plan&);

}  // namespace rehearsal::predict::frameworks
