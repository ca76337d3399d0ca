#include "predict/frameworks/priced_role.hpp"

#include <algorithm>

namespace rehearsal::predict::frameworks {

using costmodel::CollectiveKind;
using plan::Dependency;
using plan::Instruction;
using plan::InstructionKind;

std::uint16_t PricedRole::open(plan::BodyKind kind, int chunk) {
  plan::Body body;
  body.kind = kind;
  body.chunk = static_cast<std::uint16_t>(chunk);
  role_.bodies.push_back(std::move(body));
  costs_.seconds.emplace_back();
  costs_.launches.emplace_back();
  return static_cast<std::uint16_t>(role_.bodies.size() - 1);
}

Dependency PricedRole::emit(std::uint16_t body, Instruction i, const Cost& cost) {
  const auto rate = i.kind == InstructionKind::Kernel ? costmodel::Mechanism::MatrixRate : costmodel::Mechanism::LinkBandwidth;
  costs_.seconds[body].push_back({{Seconds(cost.device), rate, 0, costmodel::Evidence::Fitted}});
  costs_.launches[body].push_back(cost);
  role_.bodies[body].instructions.push_back(std::move(i));
  return {body, static_cast<std::uint32_t>(role_.bodies[body].instructions.size() - 1)};
}

plan::BufferIndex PricedRole::bytes_buffer(double bytes) {
  const auto size = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes));
  const auto [at, fresh] = buffers_.try_emplace(size, static_cast<plan::BufferIndex>(role_.buffers.size()));
  if (fresh) {
    plan::Buffer buffer;
    buffer.name = "message";
    buffer.dtype = DType::U8;
    buffer.shapes = {{size}};
    buffer.bytes = size;
    buffer.category = plan::MemoryCategory::Communication;
    role_.buffers.push_back(std::move(buffer));
  }
  return at->second;
}

std::int32_t PricedRole::kernel(std::string_view op) {
  const auto [at, fresh] = kernels_.try_emplace(std::string(op), static_cast<std::int32_t>(role_.kernels.size()));
  if (fresh) role_.kernels.push_back({framework_, {}, {}, 0, std::string(op)});
  return at->second;
}

std::int32_t PricedRole::collective(CollectiveKind kind, std::uint8_t axis) {
  const auto [at, fresh] = collectives_.try_emplace({kind, axis}, static_cast<std::int32_t>(role_.collectives.size()));
  if (fresh) {
    plan::CollectiveInfo info;
    info.kind = kind;
    info.algorithm = "nccl";
    info.axis = axis;
    role_.collectives.push_back(std::move(info));
  }
  return at->second;
}

Instruction PricedRole::collective_instruction(CollectiveKind kind, std::uint8_t axis, double bytes, plan::Stream stream) {
  Instruction i;
  i.kind = InstructionKind::Collective;
  i.stream = stream;
  i.inputs = i.outputs = {bytes_buffer(bytes)};
  i.collective = collective(kind, axis);
  return i;
}

Instruction PricedRole::message(InstructionKind kind, int to_stage, std::uint32_t channel, double bytes) {
  Instruction i;
  i.kind = kind;
  i.stream = kind == InstructionKind::Send ? plan::Stream::Send : plan::Stream::Receive;
  (kind == InstructionKind::Send ? i.inputs : i.outputs) = {bytes_buffer(bytes)};
  i.message = static_cast<std::int32_t>(role_.messages.size());
  role_.messages.push_back({to_stage - stage_, channel});
  return i;
}

}  // namespace rehearsal::predict::frameworks
