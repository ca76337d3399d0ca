// Gradients of parameters that travel between ranks in 16 bits (Sergeev and Del Balso, "Horovod", 2018, whose Compression.fp16 this is, and
// the communication hooks of PyTorch's DistributedDataParallel): each rank rounds what it has, ranks add up the rounded numbers, each
// addition in f32 and rounded again, and the update reads the sum in its own type.

#include <algorithm>

#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

using graph::TensorId;

/// What is a gradient of a parameter, and of more bits than the plan sends.
bool RoleBuilder::travels_narrowly(TensorId t) const {
  return c_.plan.compression.type_on_the_way() && size_of(g_[t].type.dtype) > 2 && is_of_parameter(t);
}

BufferIndex RoleBuilder::narrowed(BufferIndex wide, std::uint16_t body, When when) {
  Buffer narrow = by_itself(role_.buffers[wide]);
  narrow.name += ":" + to_text(c_.plan.compression);
  narrow.dtype = *c_.plan.compression.type_on_the_way();
  narrow.category = MemoryCategory::Communication;
  set_bytes(narrow);
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
