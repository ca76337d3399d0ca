#include "exec/local_memory.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/units.hpp"
#include "plan/memory/planner.hpp"

namespace rehearsal::exec {

Arena::Arena(std::int64_t bytes) : bytes_(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1))) {
  void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    throw EnvironmentFailure("memory: " + to_text(Bytes(static_cast<double>(bytes_))) +
                             " for the arena of this rank could not be had; use a plan that needs less");
  madvise(p, bytes_, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(p);
}

Arena::~Arena() { munmap(data_, bytes_); }

namespace {

/// Version v of weights lies in place v mod versions; those before the first update are the initial ones, wherever they lie.
std::int64_t ring_place(std::int64_t version, std::int64_t versions) { return (version % versions + versions) % versions; }

std::int64_t version_meant(plan::WeightVersion version, const Moment& now, std::int64_t delay) {
  if (version == plan::WeightVersion::Delayed) return now.slot_step - delay;
  return version == plan::WeightVersion::Newest ? now.step : now.step + 1;
}

}  // namespace

LocalMemory::LocalMemory(const plan::Role& role) : role_(role), device_(role.memory.arena_bytes), host_(role.memory.host_bytes) {
  for (plan::BufferIndex b = 0; b < role.buffers.size(); ++b) places_.push_back(place_of(b));
}

LocalMemory::Place LocalMemory::place_of(plan::BufferIndex b) const {
  Place p;
  for (;; b = role_.buffers[b].part_of) {
    const auto& buffer = role_.buffers[b];
    if (buffer.version != plan::WeightVersion::Delayed) p.version = buffer.version;
    if (buffer.part_of != plan::kNoBuffer) continue;
    p.saved = buffer.lifetime == plan::Lifetime::Saved;
    p.versions = buffer.versions;
    p.stride = plan::version_stride(buffer.bytes);
    return p;
  }
}

std::byte* LocalMemory::at(plan::BufferIndex b, const Moment& now) const {
  const auto& buffer = role_.buffers[b];
  const auto& memory = role_.memory;
  const auto& p = places_[b];
  std::int64_t offset = buffer.offset;
  if (memory.in_flight > 1 && p.saved)
    offset += (buffer.on_host ? memory.host_saved_stride : memory.saved_stride) * (now.saved % memory.in_flight);
  if (p.versions > 1) offset += p.stride * ring_place(version_meant(p.version, now, role_.delay), p.versions);
  return arena_of(buffer).at(offset);
}

std::span<std::byte> LocalMemory::stored(const plan::Buffer& b, std::int64_t updates) const {
  const auto offset = b.offset + ring_place(updates, b.versions) * plan::version_stride(b.bytes);
  return {arena_of(b).at(offset), static_cast<std::size_t>(b.bytes)};
}

std::span<std::byte> LocalMemory::arrivals() const {
  if (role_.arrivals == plan::kNoBuffer) return {};
  const auto& buffer = role_.buffers[role_.arrivals];
  return {device_.at(buffer.offset), static_cast<std::size_t>(buffer.bytes)};
}

std::int64_t LocalMemory::bytes() const { return device_.bytes() + (role_.memory.host_bytes > 0 ? host_.bytes() : 0); }

}  // namespace rehearsal::exec
