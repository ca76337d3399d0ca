#include "exec/local_memory.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/units.hpp"

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

LocalMemory::LocalMemory(const plan::Role& role)
    : role_(role), places_(role), device_(role.memory.arena_bytes), host_(role.memory.host_bytes) {}

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
