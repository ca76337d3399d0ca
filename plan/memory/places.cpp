#include "plan/memory/places.hpp"

#include "plan/memory/planner.hpp"

namespace rehearsal::plan {
namespace {

/// Version v of weights lies in place v mod versions; those before the first update are the initial ones, wherever they lie.
std::int64_t ring_place(std::int64_t version, std::int64_t versions) { return (version % versions + versions) % versions; }

std::int64_t version_meant(WeightVersion version, const Moment& now, std::int64_t delay) {
  if (version == WeightVersion::Delayed) return now.slot_step - delay;
  return version == WeightVersion::Newest ? now.step : now.step + 1;
}

}  // namespace

Moment moment_of(const Program& program, const Role& role, const Slot& slot, std::int64_t step) {
  Moment now;
  now.step = step;
  now.slot_step = step + slot.micro_batch / program.micro_batches;
  const auto micro_batch = slot.micro_batch % program.micro_batches;
  const bool overlap = crosses_steps(program);
  // Of steps that overlap each micro-batch has its own number; what a step's update reads is of its last one.
  now.saved = per_micro_batch(role.bodies[slot.body].kind) || !overlap ? micro_batch : program.micro_batches - 1;
  if (overlap) now.saved += now.slot_step * program.micro_batches;
  return now;
}

Places::Places(const Role& role) : role_(role) {
  for (BufferIndex b = 0; b < role.buffers.size(); ++b) places_.push_back(place_of(b));
}

Places::Place Places::place_of(BufferIndex b) const {
  Place p;
  for (;; b = role_.buffers[b].part_of) {
    const auto& buffer = role_.buffers[b];
    if (buffer.version != WeightVersion::Delayed) p.version = buffer.version;
    if (buffer.part_of != kNoBuffer) continue;
    p.saved = buffer.lifetime == Lifetime::Saved;
    p.sent = buffer.lifetime == Lifetime::Sent;
    p.versions = buffer.versions;
    p.stride = version_stride(buffer.bytes);
    return p;
  }
}

std::int64_t Places::at(BufferIndex b, const Moment& now) const {
  const auto& buffer = role_.buffers[b];
  const auto& memory = role_.memory;
  const auto& p = places_[b];
  std::int64_t offset = buffer.offset;
  if (memory.in_flight > 1 && p.saved)
    offset += (buffer.on_host ? memory.host_saved_stride : memory.saved_stride) * (now.saved % memory.in_flight);
  if (p.versions > 1) offset += p.stride * ring_place(p.sent ? now.saved : version_meant(p.version, now, role_.delay), p.versions);
  return offset;
}

std::int64_t Places::stored(const Buffer& b, std::int64_t updates) {
  return b.offset + ring_place(updates, b.versions) * version_stride(b.bytes);
}

}  // namespace rehearsal::plan
