// Gradients of which each rank sums a share (plan/compressors.hpp, CompressedSum::Shares): it compresses its own block by block, sends
// every rank its share, sums what it gets, compresses that sum, and all gather what all have of it. What a rank did not send is kept, of
// its own gradient and, by compressors that lose something of the sum, too, of that.


#include "plan/compressors.hpp"
#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

using graph::TensorId;

BufferIndex RoleBuilder::vector_of_bytes(std::string name, std::int64_t bytes) {
  Buffer vector;
  vector.name = std::move(name);
  vector.dtype = DType::U8;
  vector.category = MemoryCategory::Communication;
  vector.lifetime = Lifetime::Step;
  vector.bytes = bytes;
  vector.shapes = {{bytes}};
  return new_buffer(std::move(vector), nullptr);
}

/// Returns its number among the collectives.
std::int32_t RoleBuilder::exchange_bytes(CollectiveKind kind, BufferIndex vector, TensorId tensor, SumPlace place) {
  const bool behind = kind == CollectiveKind::AllToAll;
  CollectiveInfo info;
  info.kind = kind;
  info.algorithm = quickest(kind, place.mesh_axis, role_.buffers[vector].bytes / (behind ? 2 : 1));
  info.axis = static_cast<std::uint8_t>(place.mesh_axis);
  info.received_behind = behind;
  Instruction i;
  i.kind = InstructionKind::Collective;
  i.stream = Stream::Collective;
  i.when = place.when;
  i.phase = phase_in(place.body);
  i.tensor = tensor;
  i.collective = static_cast<std::int32_t>(role_.collectives.size());
  i.inputs = i.outputs = {vector};
  role_.collectives.push_back(std::move(info));
  emit(place.body, std::move(i));
  return static_cast<std::int32_t>(role_.collectives.size()) - 1;
}

/// The share of the sum that a rank has from all others, compressed once more; `sent`: what they sent.
RoleBuilder::Compressed RoleBuilder::gather_sum(BufferIndex sent, std::vector<BufferIndex> parts, SumPlace place,
                                                const SharedBlocks& blocks) {
  const auto& first = role_.buffers[parts.front()];
  const auto tensor = first.tensor;
  Instruction sum;
  sum.kind = InstructionKind::Recompress;
  sum.when = place.when;
  sum.phase = phase_in(place.body);
  sum.tensor = tensor;
  sum.collective = static_cast<std::int32_t>(role_.collectives.size());
  sum.inputs = {sent};
  sum.inputs.insert(sum.inputs.end(), parts.begin(), parts.end());
  const auto name = "sum of " + first.name;
  const auto vector = vector_of_bytes("sums:" + to_text(c_.plan.compression), blocks.share_bytes() * c_.program.axes[place.mesh_axis].size);
  sum.outputs = {vector};
  if (compressor(c_.plan.compression.rule)->remembers_sum) {
    const auto kept = kept_of(parts.front(), blocks.of_rank * kCompressedBlock);
    role_.buffers[kept].name = std::string(kNotSent) + name;
    sum.inputs.push_back(kept);
    sum.outputs.push_back(kept);
  }
  emit(place.body, std::move(sum));
  return {vector, exchange_bytes(CollectiveKind::AllGather, vector, tensor, place), std::move(parts), {}, place.mesh_axis};
}

RoleBuilder::Compressed RoleBuilder::sum_shares(std::vector<BufferIndex> parts, SumPlace place) {
  std::vector<std::int64_t> elements;
  for (const auto part : parts) {
    require_compressible(part);
    elements.push_back(graph::element_count(role_.buffers[part].shapes.front()));
  }
  const auto& first = role_.buffers[parts.front()];
  const int ranks = c_.program.axes[place.mesh_axis].size;
  const auto blocks = shared_blocks(c_.plan.compression, elements, first.dtype, ranks);
  Instruction own;
  own.kind = InstructionKind::Compress;
  own.when = place.when;
  own.phase = phase_in(place.body);
  own.tensor = first.tensor;
  own.collective = static_cast<std::int32_t>(role_.collectives.size());
  const auto tensor = own.tensor;
  const auto vector = vector_of_bytes("gradients:" + to_text(c_.plan.compression), 2 * ranks * blocks.piece_bytes());
  own.inputs = parts;
  own.outputs = {vector};
  for (std::size_t n = 0; n < parts.size(); ++n) own.outputs.push_back(kept_of(parts[n], elements[n]));
  own.inputs.insert(own.inputs.end(), own.outputs.begin() + 1, own.outputs.end());
  emit(place.body, std::move(own));
  (void)exchange_bytes(CollectiveKind::AllToAll, vector, tensor, place);
  return gather_sum(vector, std::move(parts), place, blocks);
}

}  // namespace rehearsal::plan
