#pragma once
// A collective of a Program made ready for one rank: its steps and its group, found once.

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/comm/communicator.hpp"
#include "exec/comm/shared_center.hpp"
#include "exec/play/device_messages.hpp"
#include "exec/play/operand_views.hpp"
#include "plan/collectives/collective.hpp"

namespace rehearsal::exec {

struct PreparedCollective {
  std::vector<std::vector<plan::CollectiveStep>> steps;  ///< by variant
  std::vector<std::vector<std::int64_t>> parts;          ///< of those that the device carries out, by variant
  std::vector<int> group;
  int device_group = -1;
  bool one_sided = false;
  std::optional<SharedCenter::Call> at_center;  ///< without its data
};

struct CollectivePlace {
  const plan::Program& program;
  Communicator& world;
  const Messages& messages;
  const OperandViews& operands;
};
[[nodiscard]] PreparedCollective prepared_collective(const CollectivePlace&, const plan::Instruction&, std::size_t variants);

}  // namespace rehearsal::exec
