// Gradients of which ranks sum two factors, one after the other (plan/low_rank.hpp): each projects what it has summed over its
// micro-batches on a few columns, P = M Q, and ranks sum P; each projects its own on that, Q = Mᵀ P, and ranks sum Q; the product of both
// is the sum that all have, and what of its own gradient a rank does not find in it is added to its next one.

#include "plan/low_rank.hpp"
#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

LowRankFactors RoleBuilder::factors(BufferIndex gradient) const {
  return factors_of(role_.buffers[gradient].shapes.front(), c_.plan.compression.setting);
}

/// Of the gradients' own type, since it is summed; kNoBuffer where nothing of them travels in it.
BufferIndex RoleBuilder::factor_vector(const std::vector<BufferIndex>& parts, bool second) {
  std::int64_t elements = 0;
  for (const auto part : parts) {
    require_compressible(part);
    elements += second ? factors(part).second() : factors(part).first();
  }
  if (elements == 0) return kNoBuffer;
  return new_vector(std::string(second ? "second" : "first") + " factors:" + to_text(c_.plan.compression),
                    role_.buffers[parts.front()].dtype, elements, MemoryCategory::Communication, Lifetime::Step);
}

RoleBuilder::Compressed RoleBuilder::sum_first_factors(std::vector<BufferIndex> parts, SumPlace place) {
  Compressed summed{
      factor_vector(parts, false), static_cast<std::int32_t>(role_.collectives.size()), std::move(parts), {}, place.mesh_axis};
  for (const auto part : summed.parts)
    if (factors(part).any()) summed.kept.push_back(kept_of(part, factors(part).kept()));
  auto i = compressing(InstructionKind::Compress, role_.buffers[summed.parts.front()].tensor, place);
  i.inputs = summed.parts;
  i.inputs.insert(i.inputs.end(), summed.kept.begin(), summed.kept.end());
  i.outputs = {summed.vector};
  i.outputs.insert(i.outputs.end(), summed.kept.begin(), summed.kept.end());
  const auto tensor = i.tensor;
  emit(place.body, std::move(i));
  all_reduce(summed.vector, tensor, place);
  return summed;
}

void RoleBuilder::sum_second_factors(const Compressed& summed, std::uint16_t body) {
  const auto second = factor_vector(summed.parts, true);
  const SumPlace place{summed.mesh_axis, body, When::Always};
  const auto tensor = role_.buffers[summed.parts.front()].tensor;
  auto whole = instruction(InstructionKind::Decompress, tensor, body, {summed.vector}, summed.parts);
  whole.collective = summed.collective;
  if (second != kNoBuffer) {
    auto i = compressing(InstructionKind::Recompress, tensor, place);
    i.inputs = {summed.vector};
    i.inputs.insert(i.inputs.end(), summed.parts.begin(), summed.parts.end());
    i.outputs = {second};
    emit(body, std::move(i));
    all_reduce(second, tensor, place);
    whole.inputs.push_back(second);
    whole.inputs.insert(whole.inputs.end(), summed.parts.begin(), summed.parts.end());
    whole.outputs.insert(whole.outputs.end(), summed.kept.begin(), summed.kept.end());
  }
  emit(body, std::move(whole));
}

}  // namespace rehearsal::plan
