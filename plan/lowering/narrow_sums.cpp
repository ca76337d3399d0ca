// Gradients of parameters that travel between ranks in 16 bits (Sergeev and Del Balso, "Horovod", 2018, whose Compression.fp16 this is, and
// the communication hooks of PyTorch's DistributedDataParallel): each rank rounds what it has, ranks add up the rounded numbers, each
// addition in f32 and rounded again, and the update reads the sum in its own type.

#include <algorithm>

#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

using graph::TensorId;

/// What is a gradient of a parameter, and of more bits than the plan sends.
bool RoleBuilder::travels_narrowly(TensorId t) const {
  if (!c_.plan.compression.type_on_the_way() || size_of(g_[t].type.dtype) <= 2) return false;
  return std::any_of(c_.training.parameters.begin(), c_.training.parameters.end(),
                     [&](const graph::TrainedParameter& p) { return p.gradient == t; });
}

BufferIndex RoleBuilder::narrowed(BufferIndex wide, std::uint16_t body, When when) {
  Buffer narrow = role_.buffers[wide];
  narrow.name += ":" + to_text(c_.plan.compression);
  narrow.dtype = *c_.plan.compression.type_on_the_way();
  narrow.part_of = kNoBuffer;
  narrow.part_offset = 0;
  narrow.offset = -1;
  narrow.sent = false;
  narrow.category = MemoryCategory::Communication;
  narrow.bytes = 0;
  for (const auto& shape : narrow.shapes)
    narrow.bytes = std::max(narrow.bytes, graph::element_count(shape) * static_cast<std::int64_t>(size_of(narrow.dtype)));
  const auto b = new_buffer(std::move(narrow), nullptr);
  role_.bodies[body].instructions[emit_move(InstructionKind::Stash, wide, b, body)].when = when;
  return b;
}

/// The sums of a bucket are read in the update first: until then the backward pass goes on.
void RoleBuilder::widen_bucket(std::size_t bucket, std::uint16_t body) {
  if (const auto gathered = compressed_buckets_.find(bucket); gathered != compressed_buckets_.end()) {
    decompress(gathered->second, body);
    compressed_buckets_.erase(gathered);
  }
  const auto waiting = narrow_buckets_.find(bucket);
  if (waiting == narrow_buckets_.end()) return;
  emit_move(InstructionKind::Restore, waiting->second, buckets_[bucket].buffer, body);
  narrow_buckets_.erase(waiting);
}

}  // namespace rehearsal::plan
