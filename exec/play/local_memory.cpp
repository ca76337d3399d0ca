#include "exec/play/local_memory.hpp"

namespace rehearsal::exec {

LocalMemory::LocalMemory(const plan::Role& role, ComputeDevice& device)
    : role_(role),
      places_(role),
      device_(device, role.memory.arena_bytes),
      host_(device, role.memory.host_bytes, DeviceMemory::Where::Host) {}

std::byte* LocalMemory::at(plan::BufferIndex b, const plan::Moment& now) const { return arena_of(role_.buffers[b]).at(places_.at(b, now)); }

std::span<std::byte> LocalMemory::stored(const plan::Buffer& b, std::int64_t updates) const {
  return {arena_of(b).at(plan::Places::stored(b, updates)), static_cast<std::size_t>(b.bytes)};
}

std::span<std::byte> LocalMemory::arrivals() const {
  if (role_.arrivals == plan::kNoBuffer) return {};
  const auto& buffer = role_.buffers[role_.arrivals];
  return {device_.at(buffer.offset), static_cast<std::size_t>(buffer.bytes)};
}

std::int64_t LocalMemory::bytes() const { return device_.bytes() + (role_.memory.host_bytes > 0 ? host_.bytes() : 0); }

}  // namespace rehearsal::exec
