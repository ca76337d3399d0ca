#include "predict/frameworks/groups.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

#include "plan/lowering/lowering.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using Axes = std::vector<plan::MeshAxisInfo>;
using Names = std::vector<std::string_view>;

/// The first rank of the group along some axes that a rank is in.
int first_along(const Axes& axes, int rank) {
  for (const auto& axis : axes) rank -= rank / axis.stride % axis.size * axis.stride;
  return rank;
}

Axes named(const Names& names, const Axes& mesh) {
  Axes axes;
  for (const auto& axis : mesh)
    if (std::ranges::find(names, axis.name) != names.end()) axes.push_back(axis);
  return axes;
}

/// Ranks from one of a stage to the one of the next stage that it sends to; 0 where there is one stage.
int between_stages(const Axes& mesh) {
  const auto pipeline = std::ranges::find(mesh, "pp", &plan::MeshAxisInfo::name);
  return pipeline == mesh.end() ? 0 : pipeline->stride;
}

/// Nodes that differ in nothing that a group of ranks meets.
struct AlikeNodes {
  int devices = 1, count = 1;
  NodeKinds kinds;
};

/// Whether there are nodes enough for groups of neighbours to have nodes of their own, or to share none with a part of another one: some
/// devices are idle then, as where 256 devices of NVL72 are 64 of four (Slurm's segments).
bool room_for_whole_groups(const AlikeNodes& nodes, int ranks, int period) {
  const int devices = nodes.devices, groups = ranks / period;
  const auto parts = [](int all, int each) { return (all + each - 1) / each; };
  return (period > devices ? groups * parts(period, devices) : parts(groups, devices / period)) <= nodes.count;
}

/// Along some axes of a mesh whose ranks are all on nodes that are alike.
class GroupsAlong {
 public:
  GroupsAlong(const AlikeNodes& nodes, const Axes& mesh, const Names& names)
      : nodes_(nodes), devices_(nodes.devices), own_(named(names, mesh)) {
    for (const auto& axis : mesh) ranks_ *= axis.size;
    for (const auto& axis : own_) {
      size_ *= axis.size;
      period_ = std::max(period_, axis.size * axis.stride);
    }
  }

  /// The others wait for the slowest, in the next collective of larger groups or at the end of the step. Where nodes and groups do not
  /// divide each other, that is one that lies on two nodes though rank 0's does not: such a one has the first rank of the second node.
  [[nodiscard]] costmodel::Group slowest() const {
    const bool divided = ranks_ <= devices_ || devices_ % period_ == 0 || period_ % devices_ == 0;
    const auto first = spread_of(0);
    if (divided || room_for_whole_groups(nodes_, ranks_, period_)) return {size_, on_first_node(), first.apart};
    const auto second = spread_of(devices_);
    return second.nodes > first.nodes ? costmodel::Group{size_, second.most, second.apart}
                                      : costmodel::Group{size_, on_first_node(), first.apart};
  }

 private:
  struct Spread {
    std::ptrdiff_t nodes = 0;
    int most = 0;   ///< ranks on the node that has most of them
    int apart = 1;  ///< from the first node to the next one that has some
  };

  /// Of rank 0's group.
  [[nodiscard]] int on_first_node() const {
    int count = 0;
    for (int rank = 0; rank < std::min(devices_, ranks_); ++rank) count += first_along(own_, rank) == 0 ? 1 : 0;
    return count;
  }

  /// Of the group that a rank is in.
  [[nodiscard]] Spread spread_of(int rank) const {
    const int first = first_along(own_, rank);
    std::vector<int> on_node(static_cast<std::size_t>(ranks_ / devices_ + 1));
    for (int i = 0; i < size_; ++i) {
      int member = first, left = i;
      for (const auto& axis : own_) member += left % axis.size * axis.stride, left /= axis.size;
      ++on_node[static_cast<std::size_t>(member / devices_)];
    }
    const auto has_ranks = [](int ranks) { return ranks > 0; };
    const auto from = std::ranges::find_if(on_node, has_ranks), to = std::find_if(from + 1, on_node.end(), has_ranks);
    return {std::ranges::count_if(on_node, has_ranks), std::ranges::max(on_node), to == on_node.end() ? 1 : static_cast<int>(to - from)};
  }

  const AlikeNodes& nodes_;
  int devices_, ranks_ = 1, size_ = 1, period_ = 1;
  Axes own_;
};

/// Ranks that share experts are carved out of data and context parallelism together. Where they are some of both, which no axis of the mesh
/// says, they are the nearest ones, as Megatron-Core lays them out.
bool experts_are_carved(const plan::Plan& plan) {
  const int beside = plan.ep / plan.expert_ranks();
  return beside != 1 && beside != plan.cp;
}
/// The axes along which they are otherwise.
std::vector<std::string_view> expert_axes(const plan::Plan& plan) {
  if (plan.ep == plan.expert_ranks()) return {"ep"};
  return {"ep", "cp"};
}
/// Ranks from one that has experts to the next.
int between_experts(const plan::Plan& plan) { return plan.has_whole_experts() ? 1 : plan.tp; }

PlacedGroup carved_experts(const AlikeNodes& nodes, const plan::Plan& plan) {
  const int apart = between_experts(plan);
  const int devices = nodes.devices, places = std::max(1, devices / apart), beyond = places % plan.ep;
  const bool whole = places < plan.ep || beyond == 0 || plan.ranks() <= devices;
  if (whole || room_for_whole_groups(nodes, plan.ranks(), plan.ep * apart))
    return {{plan.ep, std::min(places, plan.ep), std::max(1, apart / devices)}, nodes.kinds};
  return {{plan.ep, std::max(beyond, plan.ep - beyond)}, nodes.kinds};  // of those that the first node has no place for all of
}

/// The axes along which groups of one kind lie.
struct GroupAxes {
  PlacedGroup RankGroups::*group;
  Names names;
};
/// But for experts that are carved out.
std::vector<GroupAxes> axes_of_groups(const plan::Plan& plan) {
  const Names replicas{"dp", "shard", "ep", "cp"};
  std::vector<GroupAxes> all{{&RankGroups::tensor, {"tp"}}, {&RankGroups::context, {"cp"}}, {&RankGroups::replicas, replicas}};
  if (!experts_are_carved(plan)) all.push_back({&RankGroups::expert, expert_axes(plan)});
  all.push_back({&RankGroups::shards, plan.has_shard_groups() ? Names{"shard", "ep", "cp"} : replicas});
  if (plan.has_shard_groups()) all.push_back({&RankGroups::copies, {"dp"}});
  all.push_back({&RankGroups::expert_copies, axes_of_expert_copies(plan)});
  return all;
}

void set_stages(int devices, const Axes& mesh, RankGroups& groups) {
  const int apart = between_stages(mesh);
  groups.stages_between_nodes = groups.nodes > 1 && apart >= devices;
  groups.nodes_of_stage = std::max(1, apart / devices);
}

RankGroups groups_on_alike(const AlikeNodes& nodes, const plan::Plan& plan) {
  const auto mesh = plan::mesh_of(plan);
  RankGroups groups;
  for (const auto& [group, names] : axes_of_groups(plan)) groups.*group = {GroupsAlong(nodes, mesh, names).slowest(), nodes.kinds};
  if (experts_are_carved(plan)) groups.expert = carved_experts(nodes, plan);
  groups.nodes = std::max(1, (plan.ranks() + nodes.devices - 1) / nodes.devices);
  set_stages(nodes.devices, mesh, groups);
  return groups;
}

/// Of ranks on nodes of several kinds: every group is looked at where it lies.
class MixedGroups {
 public:
  MixedGroups(const platforms::Platform& platform, const plan::Plan& plan) : platform_(platform), plan_(plan), mesh_(plan::mesh_of(plan)) {
    const int apart = between_stages(mesh_);
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      places_.push_back(platforms::place(platform, rank));
      stages_.push_back({apart == 0 ? 0 : rank / apart % plan.pp, static_cast<std::size_t>(places_.back().group)});
    }
  }

  [[nodiscard]] std::map<StagePlace, RankGroups> all() {
    for (const auto& [group, names] : axes_of_groups(plan_)) {
      const auto axes = named(names, mesh_);
      add(group, [&](int rank) { return first_along(axes, rank); });
    }
    const int apart = between_experts(plan_), whole = apart * plan_.ep;
    if (experts_are_carved(plan_)) add(&RankGroups::expert, [&](int rank) { return rank / whole * whole + rank % apart; });
    for (auto& [stage, groups] : found_) {
      groups.nodes = places_.back().node + 1;
      set_stages(platform_.nodes[stage.kind].devices, mesh_, groups);
    }
    return std::move(found_);
  }

 private:
  /// Ranks of a group by kind of nodes and node.
  using Members = std::map<std::size_t, std::map<int, int>>;

  /// The kind of which fewest share a node: the others wait for its cards.
  [[nodiscard]] static PlacedGroup placed(const Members& members) {
    PlacedGroup group{{0, 0}, {}};
    int before = -1;
    for (const auto& [kind, nodes] : members) {
      int most = 0;
      for (const auto& [node, ranks] : nodes) {
        group.ranks += ranks, most = std::max(most, ranks);
        if (before >= 0) group.apart = std::max(group.apart, node - before);
        before = node;
      }
      group.per_node = group.per_node == 0 ? most : std::min(group.per_node, most);
      group.kinds.push_back(kind);
    }
    return group;
  }

  static void wait_for(const PlacedGroup& other, PlacedGroup& group) {
    if (group.kinds.empty()) group = other;
    if (group == other) return;
    group.per_node = std::min(group.per_node, other.per_node);
    group.apart = std::max(group.apart, other.apart);
    NodeKinds both;
    std::ranges::set_union(group.kinds, other.kinds, std::back_inserter(both));
    group.kinds = std::move(both);
  }

  /// `first_of`: a rank's group, by one of its ranks.
  template <class FirstOf>
  void add(PlacedGroup RankGroups::*which, const FirstOf& first_of) {
    std::map<int, Members> members;
    for (std::size_t r = 0; r < places_.size(); ++r) ++members[first_of(static_cast<int>(r))][stages_[r].kind][places_[r].node];
    std::map<int, PlacedGroup> groups;
    for (const auto& [first, own] : members) groups[first] = placed(own);
    for (std::size_t r = 0; r < places_.size(); ++r) wait_for(groups[first_of(static_cast<int>(r))], found_[stages_[r]].*which);
  }

  const platforms::Platform& platform_;
  const plan::Plan& plan_;
  Axes mesh_;
  std::vector<platforms::Placement> places_;  ///< by rank
  std::vector<StagePlace> stages_;            ///< by rank
  std::map<StagePlace, RankGroups> found_;
};

}  // namespace

bool are_alike(const platforms::NodeGroup& a, const platforms::NodeGroup& b) {
  return a.devices == b.devices && a.device == b.device && a.intra == b.intra && a.nic == b.nic;
}

int sharding_ranks(const plan::Plan& plan) { return (plan.has_shard_groups() ? plan.shard_ranks() : plan.dp) * plan.cp; }

int expert_copies(const plan::Plan& plan) { return sharding_ranks(plan) * (plan.has_whole_experts() ? plan.tp : 1) / plan.ep; }

std::vector<std::string_view> axes_of_expert_copies(const plan::Plan& plan) {
  if (plan.ep == 1) return plan.has_shard_groups() ? Names{"shard", "cp"} : Names{"dp", "cp"};
  return expert_copies(plan) == plan.dp / plan.expert_ranks() ? Names{"dp"} : Names{"dp", "cp"};
}

std::map<StagePlace, RankGroups> groups_by_place(const platforms::Platform& platform, const plan::Plan& plan) {
  const auto& first = platform.nodes.front();
  AlikeNodes used{first.devices, 0, {}};
  for (std::size_t kind = 0; kind < platform.nodes.size() && (kind == 0 || used.count * used.devices < plan.ranks()); ++kind) {
    if (!are_alike(first, platform.nodes[kind])) return MixedGroups(platform, plan).all();
    used.count += platform.nodes[kind].count;
    used.kinds.push_back(kind);
  }
  std::map<StagePlace, RankGroups> all;
  const auto groups = groups_on_alike(used, plan);
  for (int stage = 0; stage < plan.pp; ++stage)
    for (const auto kind : used.kinds) all[{stage, kind}] = groups;
  return all;
}

RankGroups groups_of(const platforms::Platform& platform, const plan::Plan& plan, StagePlace place) {
  return groups_by_place(platform, plan).at(place);
}

std::vector<StageDevices> device_groups_of_stages(const platforms::Platform& platform, const plan::Plan& plan) {
  const auto stages = static_cast<std::size_t>(plan.pp);
  if (platform.nodes.size() == 1) return {{std::vector<std::size_t>(stages, 0), plan.ranks() / plan.pp, 0}};
  const auto mesh = plan::mesh_of(plan);
  const int apart = between_stages(mesh);
  std::map<std::vector<std::size_t>, StageDevices> found;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    if (apart > 0 && rank / apart % plan.pp != 0) continue;
    std::vector<std::size_t> own;
    for (std::size_t s = 0; s < stages; ++s)
      own.push_back(static_cast<std::size_t>(platforms::place(platform, rank + static_cast<int>(s) * apart).group));
    ++found.try_emplace(own, StageDevices{own, 0, rank}).first->second.ranks;
  }
  std::vector<StageDevices> devices;
  for (auto& [groups, replicas] : found) devices.push_back(std::move(replicas));
  return devices;
}

}  // namespace rehearsal::predict::frameworks
