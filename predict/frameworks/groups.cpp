#include "predict/frameworks/groups.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <numeric>
#include <string_view>

#include "plan/lowering/lowering.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using Axes = std::vector<plan::MeshAxisInfo>;

/// Of the smallest nodes where they differ, whichever order they are written down in.
int devices_of_a_node(const platforms::Platform& platform) {
  return std::ranges::min_element(platform.nodes, {}, &platforms::NodeGroup::devices)->devices;
}

/// Whether the platform has nodes enough for groups of neighbours to have nodes of their own, or to share none with a part of another one:
/// some devices are idle then, as where 256 devices of NVL72 are 64 of four (Slurm's segments).
bool room_for_whole_groups(const platforms::Platform& platform, int ranks, int period) {
  const int devices = devices_of_a_node(platform), groups = ranks / period;
  const int nodes = std::accumulate(platform.nodes.begin(), platform.nodes.end(), 0, [](int sum, const auto& n) { return sum + n.count; });
  const auto parts = [](int all, int each) { return (all + each - 1) / each; };
  return (period > devices ? groups * parts(period, devices) : parts(groups, devices / period)) <= nodes;
}

/// Along some axes of a mesh.
class GroupsAlong {
 public:
  GroupsAlong(const platforms::Platform& platform, const Axes& mesh, std::initializer_list<std::string_view> names)
      : platform_(platform), devices_(devices_of_a_node(platform)) {
    for (const auto& axis : mesh) {
      ranks_ *= axis.size;
      if (std::find(names.begin(), names.end(), axis.name) == names.end()) continue;
      own_.push_back(axis);
      size_ *= axis.size;
      period_ = std::max(period_, axis.size * axis.stride);
    }
  }

  /// The others wait for the slowest, in the next collective of larger groups or at the end of the step. Where nodes and groups do not
  /// divide each other, that is one that lies on two nodes though rank 0's does not: such a one has the first rank of the second node.
  [[nodiscard]] costmodel::Group slowest() const {
    const bool divided = ranks_ <= devices_ || devices_ % period_ == 0 || period_ % devices_ == 0;
    if (divided || room_for_whole_groups(platform_, ranks_, period_)) return {size_, on_first_node()};
    const auto first = spread_of(0), second = spread_of(devices_);
    return {size_, second.nodes > first.nodes ? second.most : on_first_node()};
  }

 private:
  struct Spread {
    std::ptrdiff_t nodes = 0;
    int most = 0;  ///< ranks on the node that has most of them
  };

  /// Of rank 0's group.
  [[nodiscard]] int on_first_node() const {
    int count = 0;
    for (int rank = 0; rank < std::min(devices_, ranks_); ++rank) count += first_of(rank) == 0 ? 1 : 0;
    return count;
  }

  /// The first rank of the group that a rank is in.
  [[nodiscard]] int first_of(int rank) const {
    for (const auto& axis : own_) rank -= rank / axis.stride % axis.size * axis.stride;
    return rank;
  }

  /// Of the group that a rank is in.
  [[nodiscard]] Spread spread_of(int rank) const {
    const int first = first_of(rank);
    std::vector<int> on_node(static_cast<std::size_t>(ranks_ / devices_ + 1));
    for (int i = 0; i < size_; ++i) {
      int member = first, left = i;
      for (const auto& axis : own_) member += left % axis.size * axis.stride, left /= axis.size;
      ++on_node[static_cast<std::size_t>(member / devices_)];
    }
    return {std::ranges::count_if(on_node, [](int ranks) { return ranks > 0; }), std::ranges::max(on_node)};
  }

  const platforms::Platform& platform_;
  int devices_, ranks_ = 1, size_ = 1, period_ = 1;
  Axes own_;
};

costmodel::Group group_along(const platforms::Platform& platform, const Axes& mesh, std::initializer_list<std::string_view> names) {
  return GroupsAlong(platform, mesh, names).slowest();
}

/// Ranks that share experts are carved out of data and context parallelism together. Where they are some of both, which no axis of the mesh
/// says, they are the nearest ones, as Megatron-Core lays them out.
costmodel::Group experts_of(const platforms::Platform& platform, const Axes& mesh, const plan::Plan& plan) {
  const int beside = plan.ep / plan.expert_ranks();
  if (beside == 1) return group_along(platform, mesh, {"ep"});
  if (beside == plan.cp) return group_along(platform, mesh, {"ep", "cp"});
  const int apart = plan.has_whole_experts() ? 1 : plan.tp;  // ranks from one that has experts to the next
  const int devices = devices_of_a_node(platform), places = std::max(1, devices / apart), beyond = places % plan.ep;
  const bool whole = places < plan.ep || beyond == 0 || plan.ranks() <= devices;
  if (whole || room_for_whole_groups(platform, plan.ranks(), plan.ep * apart)) return {plan.ep, std::min(places, plan.ep)};
  return {plan.ep, std::max(beyond, plan.ep - beyond)};  // of those that the first node has no place for all of
}

}  // namespace

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
