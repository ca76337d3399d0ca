#pragma once
// What messages between the ranks of a group cost, while all groups along the same axis of the mesh send theirs.

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "costmodel/cost_model.hpp"
#include "plan/collectives/collective.hpp"
#include "plan/program/program.hpp"
#include "platforms/fabric.hpp"

namespace rehearsal::predict {

/// Where a rank stands: along an axis of the mesh of a Program.
struct GroupMember {
  std::size_t axis = 0;
  int rank = 0;
};

/// Looked up once for every rank that is asked about. Refers to what it is made of.
class GroupLinks {
 public:
  GroupLinks(const plan::Program&, const platforms::Platform&, const platforms::Fabric&, const costmodel::CostModel&);

  [[nodiscard]] const plan::CollectiveLinks& of(GroupMember);

 private:
  /// By powers of two of the distance, as plan::CollectiveLinks has them.
  struct Distances {
    std::vector<plan::NetworkPath> around, across, swinging;
  };
  /// Messages that cross a link, by places of sender and receiver in their groups: [from * size + to].
  using Crossings = std::unordered_map<std::uint32_t, std::vector<int>>;
  [[nodiscard]] plan::CollectiveLinks measured(GroupMember) const;
  [[nodiscard]] std::vector<int> one_of_each_kind(GroupMember) const;
  [[nodiscard]] plan::MemberWays ways(GroupMember);
  /// Of every group along the axis that has members among the ranks, between these.
  [[nodiscard]] Crossings crossings_of(std::size_t axis, std::span<const int> ranks) const;
  [[nodiscard]] Crossings crossings_near(GroupMember) const;
  [[nodiscard]] const Distances& distances(std::size_t axis);

  const plan::Program& program_;
  const platforms::Platform& platform_;
  const platforms::Fabric& fabric_;
  const costmodel::CostModel& model_;
  std::map<std::pair<std::size_t, int>, plan::CollectiveLinks> known_;
  std::map<std::size_t, Distances> distances_;
  std::map<std::size_t, Crossings> crossings_;  ///< of all ranks, where groups share a network
};

/// Messages between stages, while every rank of the sender's stage sends the same. Looked up once for every rank that is asked about.
/// Refers to what it is made of.
class MessageTraffic {
 public:
  MessageTraffic(const plan::Program& program, const platforms::Fabric& fabric) : program_(program), fabric_(fabric) {}

  /// How many of these messages cross each link of the rank's route, in the order of Fabric::route().
  [[nodiscard]] const std::vector<int>& crossing(int rank, const plan::MessageInfo&);
  /// The rank's route, with what the other messages leave to it.
  [[nodiscard]] platforms::Path path(int rank, const plan::MessageInfo&);

 private:
  using LinkCounts = std::unordered_map<std::uint32_t, int>;
  [[nodiscard]] const LinkCounts& of_stage(int stage, const plan::MessageInfo&);

  const plan::Program& program_;
  const platforms::Fabric& fabric_;
  std::map<std::pair<int, int>, LinkCounts> stages_;          ///< by stage and how many stages further the receiver is
  std::map<std::pair<int, int>, std::vector<int>> crossing_;  ///< by rank and the same
  platforms::Route route_;
};

}  // namespace rehearsal::predict
