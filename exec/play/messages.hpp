#pragma once
// What a rank sends and receives, from and to the memory of its device: through memory of the host where that is not the device's own.

#include <map>
#include <memory>
#include <vector>

#include "exec/comm/transfers.hpp"
#include "exec/kernels/device.hpp"

namespace rehearsal::exec {

/// As Transfers, whose tickets these are. A message from a device leaves when the device has computed it; what arrives is on the device, in
/// order behind what it was asked for, once done() has said so.
class Messages {
 public:
  /// `beside`: memory of the host for what collectives need beside their vectors.
  Messages(Communicator& world, Device& device, std::span<std::byte> beside)
      : device_(device), transfers_(world, plan::kSegmentBytes, beside) {}

  Ticket start_send(int peer, const void* data, std::size_t bytes, int tag, std::string_view what);
  Ticket start_receive(int peer, void* data, std::size_t bytes, int tag, std::string_view what);
  Ticket start_collective(const CollectiveCall&, std::string_view what);

  [[nodiscard]] bool done(Ticket);
  void progress() { transfers_.progress(); }
  void idle() { transfers_.idle(); }
  void wait_all();
  [[nodiscard]] TransferTimes times(Ticket ticket) const { return transfers_.times(ticket); }
  [[nodiscard]] std::int64_t allocated_bytes() const { return transfers_.allocated_bytes(); }
  void forget() { transfers_.forget(); }

 private:
  /// A message's copy in the host's memory.
  struct Staged {
    std::unique_ptr<DeviceMemory> memory;
    void* arrives = nullptr;  ///< where on the device; nullptr: it leaves
    std::size_t bytes = 0;
  };
  [[nodiscard]] Staged stage(std::size_t bytes);
  void finish(Staged&);

  Device& device_;
  Transfers transfers_;
  std::map<Ticket, Staged> staged_;                                    ///< under way, or not yet asked for
  std::multimap<std::int64_t, std::unique_ptr<DeviceMemory>> unused_;  ///< by size: memory that a device knows is costly to get
};

}  // namespace rehearsal::exec
