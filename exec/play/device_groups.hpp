#pragma once
// Which collectives of a Program the devices of its ranks carry out among themselves, and in which groups.

#include <functional>
#include <map>
#include <memory>

#include "exec/comm/communicator.hpp"
#include "exec/kernels/compute_device.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::exec {

/// What all ranks have agreed on: the devices of every rank do them, or none.
class DeviceGroups {
 public:
  /// All ranks of the Program together. `meanwhile` moves messages on that are under way.
  DeviceGroups(const plan::Program&, Communicator&, ComputeDevice&, std::function<void()> meanwhile);

  /// nullptr: the host carries out all collectives.
  [[nodiscard]] DeviceCollectives* collectives() const { return collectives_.get(); }
  /// Are any of the Program's carried out by devices?
  [[nodiscard]] bool any() const { return !group_of_axis_.empty(); }
  /// The group among which devices carry it out; -1: the host does. So it is where the plan names an algorithm.
  [[nodiscard]] int of(const plan::CollectiveInfo&, DType) const;

 private:
  [[nodiscard]] bool is_by_devices(const plan::CollectiveInfo&, DType) const;
  void join(Communicator&);

  const plan::Program& program_;
  std::unique_ptr<DeviceCollectives> collectives_;
  std::map<std::size_t, int> group_of_axis_;
};

}  // namespace rehearsal::exec
