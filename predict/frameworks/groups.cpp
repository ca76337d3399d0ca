#include "predict/frameworks/groups.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string_view>

#include "plan/lowering/lowering.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using Axes = std::vector<plan::MeshAxisInfo>;

/// Of the smallest nodes where they differ, whichever order they are written down in.
int devices_of_a_node(const platforms::Platform& platform) {
  return std::ranges::min_element(platform.nodes, {}, &platforms::NodeGroup::devices)->devices;
}

/// Ranks that differ from rank 0 along these axes alone.
costmodel::Group group_along(const platforms::Platform& platform, const Axes& mesh, std::initializer_list<std::string_view> names) {
  const int in_first_node = devices_of_a_node(platform);
  costmodel::Group group{1, 0};
  for (const auto& axis : mesh)
    if (std::find(names.begin(), names.end(), axis.name) != names.end()) group.ranks *= axis.size;
  const auto belongs = [&](int rank) {
    return std::all_of(mesh.begin(), mesh.end(), [&](const plan::MeshAxisInfo& axis) {
      return rank / axis.stride % axis.size == 0 || std::find(names.begin(), names.end(), axis.name) != names.end();
    });
  };
  int ranks = 1;
  for (const auto& axis : mesh) ranks *= axis.size;
  for (int rank = 0; rank < std::min(in_first_node, ranks); ++rank) group.per_node += belongs(rank) ? 1 : 0;
  return group;
}

/// Ranks that share experts are carved out of data and context parallelism together. Where they are some of both, which no axis of the mesh
/// says, they are the nearest ones, as Megatron-Core lays them out.
costmodel::Group experts_of(const platforms::Platform& platform, const Axes& mesh, const plan::Plan& plan) {
  const int beside = plan.ep / plan.expert_ranks();
  if (beside == 1) return group_along(platform, mesh, {"ep"});
  if (beside == plan.cp) return group_along(platform, mesh, {"ep", "cp"});
  return {plan.ep, std::clamp(devices_of_a_node(platform) / (has_whole_experts(plan) ? 1 : plan.tp), 1, plan.ep)};
}

}  // namespace

bool has_whole_experts(const plan::Plan& plan) {
  const int beside = plan.ep / plan.expert_ranks();
  return beside != 1 && beside != plan.cp && (beside == plan.tp || beside == plan.tp * plan.cp);
}

RankGroups groups_of(const platforms::Platform& platform, const plan::Plan& plan) {
  const auto mesh = plan::mesh_of(plan);
  RankGroups groups;
  groups.tensor = group_along(platform, mesh, {"tp"});
  groups.context = group_along(platform, mesh, {"cp"});
  groups.expert = experts_of(platform, mesh, plan);
  groups.replicas = group_along(platform, mesh, {"dp", "shard", "ep", "cp"});
  groups.shards = plan.has_shard_groups() ? group_along(platform, mesh, {"shard", "ep", "cp"}) : groups.replicas;
  if (plan.has_shard_groups()) groups.copies = group_along(platform, mesh, {"dp"});
  const int devices = devices_of_a_node(platform);
  groups.nodes = std::max(1, (plan.ranks() + devices - 1) / devices);
  for (const auto& axis : mesh)
    if (axis.name == "pp") {
      groups.stages_between_nodes = groups.nodes > 1 && axis.stride >= devices;
      groups.nodes_of_stage = std::max(1, axis.stride / devices);
    }
  return groups;
}

std::vector<StageDevices> device_groups_of_stages(const platforms::Platform& platform, const plan::Plan& plan) {
  const auto stages = static_cast<std::size_t>(plan.pp);
  if (platform.nodes.size() == 1) return {{std::vector<std::size_t>(stages, 0), plan.ranks() / plan.pp, 0}};
  const auto mesh = plan::mesh_of(plan);
  const auto pipeline = std::find_if(mesh.begin(), mesh.end(), [](const auto& axis) { return axis.name == "pp"; });
  std::map<std::vector<std::size_t>, StageDevices> found;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    if (pipeline != mesh.end() && rank / pipeline->stride % pipeline->size != 0) continue;
    std::vector<std::size_t> own;
    for (std::size_t s = 0; s < stages; ++s)
      own.push_back(static_cast<std::size_t>(
          platforms::place(platform, rank + static_cast<int>(s) * (pipeline == mesh.end() ? 0 : pipeline->stride)).group));
    ++found.try_emplace(own, StageDevices{own, 0, rank}).first->second.ranks;
  }
  std::vector<StageDevices> devices;
  for (auto& [groups, replicas] : found) devices.push_back(std::move(replicas));
  return devices;
}

}  // namespace rehearsal::predict::frameworks
