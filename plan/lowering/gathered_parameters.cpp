#include "plan/lowering/gathered_parameters.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace rehearsal::plan {

using graph::TensorId;

bool RoleBuilder::GatheredParameters::takes(const Redistribution& r, BufferIndex source) const {
  const auto& stored = b_.role_.buffers[b_.base(source)];
  if (r.kind != ConversionKind::AllGather || stored.lifetime != Lifetime::Persistent) return false;
  return stored.tensor != TensorId::None && b_.g_[stored.tensor].role == graph::TensorRole::Parameter &&
         !b_.travels_alone(dealing_of(b_.c_.sharding, r, b_.at_.front()), stored.dtype);
}

void RoleBuilder::GatheredParameters::gather(const ConversionStep& step, Redistribution r, Transfer transfer, std::uint16_t body) {
  const auto dealing = dealing_of(b_.c_.sharding, r, b_.at_.front());
  const auto element = static_cast<std::int64_t>(size_of(b_.role_.buffers[transfer.from].dtype));
  auto& shared = open(step, r, dealing.count * element, body);
  auto& instructions = b_.role_.bodies[body].instructions;
  auto& vector = b_.role_.buffers[shared.vector];
  vector.bytes += dealing.count * element;
  vector.shapes = {{vector.bytes / element}};
  instructions[shared.pack].inputs.push_back(transfer.from);
  instructions[shared.unpack].outputs.push_back(transfer.to);
  b_.note_cross_body_use(transfer.from, body);
  b_.note_cross_body_use(transfer.to, body);
  b_.writers_[b_.base(transfer.to)] = {body, shared.unpack, Stream::Compute, true};
  shared.members.push_back(std::move(r));
  shared.dealt.push_back(dealing.out);
}

/// Of a body's n-th message: kernels wait for the first ones, of which there is nothing to hide behind.
std::int64_t RoleBuilder::GatheredParameters::room_of(std::ptrdiff_t n) const {
  constexpr std::int64_t kFirst = 16, kGrowth = 4;
  std::int64_t room = b_.c_.options.bucket_bytes / kFirst;
  for (; n > 1 && room < b_.c_.options.bucket_bytes; --n) room *= kGrowth;
  return std::min(room, b_.c_.options.bucket_bytes);
}

/// The last one that it may join, or a new one.
RoleBuilder::GatheredParameters::Shared& RoleBuilder::GatheredParameters::open(const ConversionStep& step, const Redistribution& r,
                                                                               std::int64_t bytes, std::uint16_t body) {
  const auto dtype = b_.g_[r.tensor].type.dtype;
  const auto same = [&](const Shared& s) {
    return std::tie(s.axis, s.dtype, s.once, s.again, s.body) == std::tie(step.axis, dtype, b_.once_a_step_, b_.again_, body);
  };
  const auto last = std::find_if(shared_.rbegin(), shared_.rend(), same);
  if (last != shared_.rend() &&
      b_.role_.buffers[last->vector].bytes + bytes <= room_of(std::count_if(shared_.begin(), shared_.end(), same)))
    return *last;
  Buffer vector = b_.message_vector(r);
  vector.shapes = {{0}};
  Shared shared{step.axis, dtype, b_.once_a_step_, b_.again_, body, 0, 0, 0, b_.new_buffer(std::move(vector), nullptr)};
  shared.pack = b_.emit_copy({InstructionKind::Pack, -1}, {}, {shared.vector}, body);
  shared.collective = b_.emit_collective(step, -1, {}, shared.vector, body);
  shared.unpack = b_.emit_copy({InstructionKind::Unpack, -1}, {shared.vector}, {}, body);
  return shared_.emplace_back(std::move(shared));
}

void RoleBuilder::GatheredParameters::close() {
  for (auto& s : shared_) {
    auto& instructions = b_.role_.bodies[s.body].instructions;
    const auto first = static_cast<std::int32_t>(b_.role_.redistributions.size());
    const auto count = static_cast<std::int32_t>(s.members.size());
    for (std::int32_t n = 0; n < count; ++n) {
      auto& r = b_.role_.redistributions.emplace_back(std::move(s.members[static_cast<std::size_t>(n)]));
      r.before = n;
      r.behind = count - 1 - n;
    }
    instructions[s.pack].redistribution = instructions[s.unpack].redistribution = first;
    auto& vector = b_.role_.buffers[s.vector];
    if (count > 1)
      vector.name = b_.g_[instructions[s.pack].tensor].name + " and " + std::to_string(count - 1) +
                    " more:" + std::string(name(ConversionKind::AllGather));
    auto& info = b_.role_.collectives[static_cast<std::size_t>(instructions[s.collective].collective)];
    info.redistribution = first;
    info.dealt = in_fewer(s.dealt);
    info.algorithm = b_.algorithm(info.kind, info.axis, vector.bytes);
  }
}

}  // namespace rehearsal::plan
