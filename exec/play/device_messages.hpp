#pragma once
// What a rank sends and receives, from and to the memory of its device: by the device itself where it can, else through memory of the host
// where that is not the device's own.

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "exec/comm/shared_center.hpp"
#include "exec/play/device_groups.hpp"

namespace rehearsal::exec {

/// Meetings that a replica may be ahead of another one in a run: Plan::staleness, and where that has no bound as many as are a few steps,
/// since a training that is to end ends where the foremost is.
[[nodiscard]] std::int64_t staleness_in_run(const plan::Plan&);

/// Something started, by the host or by the device; valid until Messages::forget().
struct MessageTicket {
  Ticket by_host{};
  std::optional<std::uint32_t> by_device = {}, at_center = {};
};

/// As Transfers. A message from a device leaves when the device has computed it; what arrives is on the device, in order behind what it was
/// asked for, once done() has said so.
class Messages {
 public:
  /// All ranks of the Program together. `beside`: memory of the host for what collectives need beside their vectors.
  Messages(const plan::Program&, Communicator& world, ComputeDevice& device, std::span<std::byte> beside);

  MessageTicket start_send(int peer, const void* data, std::size_t bytes, int tag, std::string_view what);
  MessageTicket start_receive(int peer, void* data, std::size_t bytes, int tag, std::string_view what);
  MessageTicket start_collective(const CollectiveCall&, std::string_view what);
  /// What the device carries out itself: devices().of() has its group.
  MessageTicket start_collective(const DeviceCollective&, std::string_view what);
  /// Where replicas meet one by one (plan::kServers).
  MessageTicket start_at_center(SharedCenter::Call, void* data, std::string_view what);
  /// See SharedCenter; without effect where there is none. Replicas begin and end this together.
  void meet_at_once(bool);
  [[nodiscard]] std::int64_t take_staleness();
  [[nodiscard]] const DeviceGroups& devices() const { return groups_; }

  [[nodiscard]] bool done(const MessageTicket&);
  void progress();
  void idle();
  void wait_all();
  [[nodiscard]] TransferTimes times(const MessageTicket&) const;
  [[nodiscard]] std::int64_t allocated_bytes() const { return transfers_.allocated_bytes() + center_bytes_; }
  void forget();

 private:
  /// A message's copy in the host's memory.
  struct StagedMessage {
    std::unique_ptr<DeviceMemory> memory;
    void* arrives = nullptr;  ///< where on the device; nullptr: it leaves
    std::size_t bytes = 0;
  };
  /// Of the device, in the order in which they were started and will end.
  struct StartedCollective {
    std::uint32_t number = 0;
    std::string_view what;
  };
  [[nodiscard]] bool waits_at_center() const { return center_ && center_->busy(); }
  [[nodiscard]] StagedMessage stage(std::size_t bytes);
  void finish(StagedMessage&);

  Communicator& world_;
  ComputeDevice& device_;
  Transfers transfers_;
  DeviceGroups groups_;
  std::optional<SharedCenter> center_;
  std::int64_t center_bytes_ = 0;
  std::vector<StartedCollective> by_device_;
  WaitingTime waiting_;                                                ///< since anything has moved, while the device has some under way
  std::map<Ticket, StagedMessage> staged_;                             ///< under way, or not yet asked for
  std::multimap<std::int64_t, std::unique_ptr<DeviceMemory>> unused_;  ///< by size: memory that a device knows is costly to get
};

}  // namespace rehearsal::exec
