#include "exec/play/device_groups.hpp"

#include <sched.h>

#include <set>

namespace rehearsal::exec {
namespace {

constexpr int kTell = 4;  // tag of the service channel, beside the communicator's own and those of RowEnd

std::string told_by_first(Communicator& world, std::span<const int> group, const std::string& own) {
  constexpr std::string_view kWhat = "the name of a group of devices";
  if (world.rank() == group.front()) {
    for (const int peer : group.subspan(1)) {
      auto told = world.send(peer, own.data(), own.size(), Channel::Service, kTell);
      world.wait(told, kWhat);
    }
    return own;
  }
  std::string heard(own.size(), '\0');
  auto hearing = world.receive(group.front(), heard.data(), heard.size(), Channel::Service, kTell);
  world.wait(hearing, kWhat);
  return heard;
}

Meeting meeting_of(Communicator& world, std::function<void()> meanwhile) {
  return {[&world](std::span<const int> group, const std::string& own) { return told_by_first(world, group, own); },
          [&world, meanwhile = std::move(meanwhile)](double since) {
            meanwhile();
            world.require_neighbours();
            if (now_seconds() - since > world.stall_seconds())
              throw world.stalled("the devices of other ranks to take part in a collective");
            ::sched_yield();
          }};
}

}  // namespace

DeviceGroups::DeviceGroups(const plan::Program& program, Communicator& world, ComputeDevice& device, std::function<void()> meanwhile)
    : program_(program) {
  if (device.is_host() || program.ranks == 1) return;
  collectives_ = device.collectives(world.local_size(), meeting_of(world, std::move(meanwhile)));
  if (world.min(collectives_ ? 1 : 0) == 0) collectives_.reset();
  if (collectives_) join(world);
}

/// Of all roles, so that every rank joins the same groups in the same order.
void DeviceGroups::join(Communicator& world) {
  std::set<std::size_t> axes;
  for (const auto& role : program_.roles)
    for (const auto& body : role.bodies)
      for (const auto& i : body.instructions) {
        if (i.kind != plan::InstructionKind::Collective) continue;
        const auto& info = role.collectives[static_cast<std::size_t>(i.collective)];
        if (program_.axes[info.axis].size > 1 && is_by_devices(info, role.buffers[i.outputs.front()].dtype)) axes.insert(info.axis);
      }
  for (const auto axis : axes)
    group_of_axis_[axis] = collectives_->join(plan::group(program_, world.rank(), axis), plan::coordinate(program_, world.rank(), axis));
}

bool DeviceGroups::is_by_devices(const plan::CollectiveInfo& info, DType dtype) const {
  const bool is_named = info.kind == plan::CollectiveKind::AllReduce && program_.plan.allreduce != "auto";
  return collectives_ && !is_named && !info.received_behind && collectives_->does(info.kind, dtype, info.reduction);
}

int DeviceGroups::of(const plan::CollectiveInfo& info, DType dtype) const {
  const auto known = group_of_axis_.find(info.axis);
  return known != group_of_axis_.end() && is_by_devices(info, dtype) ? known->second : -1;
}

}  // namespace rehearsal::exec
