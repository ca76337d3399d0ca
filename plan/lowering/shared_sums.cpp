// Gradients of which each rank sums a share (plan/compressors.hpp, CompressedSum::Shares): it compresses its own block by block, sends
// every rank its share, sums what it gets, compresses that sum, and all gather what all have of it. What a rank did not send is kept, of
// its own gradient and, by compressors that lose something of the sum, too, of that.

#include "plan/compressors.hpp"
#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

using graph::TensorId;

BufferIndex RoleBuilder::vector_of_bytes(std::string name, std::int64_t bytes) {
  return new_vector(std::move(name), DType::U8, bytes, MemoryCategory::Communication, Lifetime::Step);
}

/// Returns its number among the collectives.
std::int32_t RoleBuilder::exchange_bytes(CollectiveKind kind, BufferIndex vector, TensorId tensor, SumPlace place) {
  CollectiveInfo info;
  info.kind = kind;
  info.received_behind = kind == CollectiveKind::AllToAll;
  info.algorithm = quickest(kind, place.mesh_axis, role_.buffers[vector].bytes / (info.received_behind ? 2 : 1));
  emit_collective(std::move(info), vector, tensor, place);
  return static_cast<std::int32_t>(role_.collectives.size()) - 1;
}

/// The share of the sum that a rank has from all others, compressed once more; `sent`: what they sent.
RoleBuilder::Compressed RoleBuilder::gather_sum(BufferIndex sent, std::vector<BufferIndex> parts, SumPlace place,
                                                const SharedBlocks& blocks) {
  const auto& first = role_.buffers[parts.front()];
  const auto tensor = first.tensor;
  auto sum = compressing(InstructionKind::Recompress, tensor, place);
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
  auto own = compressing(InstructionKind::Compress, first.tensor, place);
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
