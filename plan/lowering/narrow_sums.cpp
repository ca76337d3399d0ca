// Gradients of parameters that travel between ranks in 16 bits (Sergeev and Del Balso, "Horovod", 2018, whose Compression.fp16 this is, and
// the communication hooks of PyTorch's DistributedDataParallel): each rank rounds what it has, ranks add up the rounded numbers, each
// addition in f32 and rounded again, and the update reads the sum in its own type. And gradients of 16 bits that micro-batches have added
// up in f32, which travel as those of one micro-batch do.

#include <algorithm>

#include "base/error.hpp"
#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

using graph::TensorId;

/// Does it hold in f32 what micro-batches computed in 16 bits?
bool RoleBuilder::is_wide_sum(BufferIndex b) const {
  const auto& buffer = role_.buffers[b];
  if (buffer.tensor == TensorId::None || c_.program.micro_batches == 1 || buffer.dtype != DType::F32) return false;
  return sum_type(g_[buffer.tensor].type.dtype) != g_[buffer.tensor].type.dtype;
}

/// May the node read an f32 sum in place of that operand? Updates and norms may; what gives its operand's type back may not.
bool RoleBuilder::reads_sums(Use use) const {
  const auto& node = g_[use.node];
  std::vector<std::optional<graph::TensorType>> inputs;
  for (const auto t : node.inputs) inputs.push_back(t == TensorId::None ? std::nullopt : std::optional(g_[t].type));
  inputs[use.operand]->dtype = DType::F32;
  try {
    const auto results = graph::schema(node).infer({inputs, {}, node.attributes});
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != TensorId::None && results.at(i).dtype != g_[node.outputs[i]].type.dtype) return false;
    return true;
  } catch (const BadInput&) {
    return false;
  }
}

BufferIndex RoleBuilder::rounded_sum(BufferIndex sum, std::uint16_t body) {
  const auto [at, fresh] = rounded_sums_.try_emplace({sum, body}, kNoBuffer);
  if (!fresh) return at->second;
  at->second = narrowed(sum, body, When::Always);
  role_.buffers[at->second].lifetime = lifetime_in(body);
  return at->second;
}

/// What has more bits than it is sent in: f32 sums of what micro-batches computed in 16 bits, which are sent as that is, and gradients of
/// parameters where the plan wants fewer.
bool RoleBuilder::travels_narrowly(BufferIndex b) const {
  if (is_wide_sum(b)) return true;
  const auto t = role_.buffers[b].tensor;
  return c_.plan.compression.type_on_the_way() && size_of(g_[t].type.dtype) > 2 && is_of_parameter(t);
}

BufferIndex RoleBuilder::narrowed(BufferIndex wide, std::uint16_t body, When when) {
  const bool is_sum = is_wide_sum(wide);
  const auto t = role_.buffers[wide].tensor;
  auto narrow = by_itself(retyped(role_.buffers[wide], is_sum ? g_[t].type.dtype : *c_.plan.compression.type_on_the_way()));
  narrow.name += ":" + (is_sum ? "rounded" : to_text(c_.plan.compression));
  narrow.category = MemoryCategory::Communication;
  const auto b = new_buffer(std::move(narrow), nullptr);
  if (is_sum)
    cast(wide, b, body, when);
  else
    role_.bodies[body].instructions[emit_move(InstructionKind::Stash, wide, b, body)].when = when;
  return b;
}

void RoleBuilder::widen(BufferIndex narrow, BufferIndex wide, std::uint16_t body) {
  if (is_wide_sum(wide))
    cast(narrow, wide, body, When::Always);
  else
    emit_move(InstructionKind::Restore, narrow, wide, body);
}

/// By a kernel, which devices have.
void RoleBuilder::cast(BufferIndex from, BufferIndex to, std::uint16_t body, When when) {
  emit_kernel_of(g_[role_.buffers[from].tensor].producer, "Cast", {{"to", std::string(name(role_.buffers[to].dtype))}},
                 {{from}, body, when}, {to});
}

/// The sums of a bucket are read in the update first: until then the backward pass goes on.
void RoleBuilder::widen_bucket(std::size_t bucket, std::uint16_t body) {
  if (const auto gathered = compressed_buckets_.find(bucket); gathered != compressed_buckets_.end()) {
    decompress(gathered->second, body);
    compressed_buckets_.erase(gathered);
  }
  const auto waiting = narrow_buckets_.find(bucket);
  if (waiting == narrow_buckets_.end()) return;
  widen(waiting->second, buckets_[bucket].buffer, body);
  narrow_buckets_.erase(waiting);
}

}  // namespace rehearsal::plan
