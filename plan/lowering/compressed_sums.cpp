// Gradients of parameters of which ranks exchange what a compressor leaves (plan/compressors.hpp): each compresses what it has summed over
// its micro-batches, all gather what all have sent, and each decodes the same sum. Tensor by tensor, so that it does not matter which
// gradients travel together. Plan::exact_steps: both ways of the sum stand in the Program, and a step goes one of them.

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/error.hpp"
#include "plan/compressors.hpp"
#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

using graph::TensorId;

bool RoleBuilder::travels_compressed(TensorId t) const { return c_.plan.compression.of_sums() && is_of_parameter(t); }

void RoleBuilder::require_compressible(BufferIndex gradient) const {
  const auto& part = role_.buffers[gradient];
  const auto elements = graph::element_count(part.shapes.front());
  const auto refuse = [&](const std::string& why) {
    throw Refusal("plan: compression=" + to_text(c_.plan.compression) + ": the gradient of " + part.name + " " + why);
  };
  const auto dtype = g_[part.tensor].type.dtype;
  if (dtype != DType::F32 && dtype != DType::F64)
    refuse("is " + std::string(name(dtype)) + ", and compressors take f32 or f64; use compression=none, or f32");
  if (elements > std::numeric_limits<std::uint32_t>::max())
    refuse("has " + std::to_string(elements) + " elements, and compressors count them in 32 bits; use compression=none");
}

/// What ranks gather: of each what it sends of all parts, one rank's behind the other's.
BufferIndex RoleBuilder::compressed_vector(const std::vector<BufferIndex>& parts, int ranks) {
  std::int64_t bytes = 0;
  for (const auto b : parts) {
    require_compressible(b);
    const auto& part = role_.buffers[b];
    bytes += compressed_bytes(c_.plan.compression, graph::element_count(part.shapes.front()), part.dtype);
  }
  return vector_of_bytes("gradients:" + to_text(c_.plan.compression), bytes * ranks);
}

/// Where a compressor that remembers keeps what it has not sent of a gradient.
BufferIndex RoleBuilder::kept_of(BufferIndex gradient, std::int64_t elements) {
  const auto& part = role_.buffers[gradient];
  return new_vector(std::string(kNotSent) + part.name, part.dtype, elements, MemoryCategory::OptimizerState, Lifetime::Persistent);
}

namespace {

During during_compression(const Plan& plan) { return plan.exact_steps > 0 ? During::Later : During::Training; }

}  // namespace

RoleBuilder::Compressed RoleBuilder::sum_compressed(BufferIndex whole, std::vector<BufferIndex> parts, SumPlace place) {
  const auto& row = *compressor(c_.plan.compression.rule);
  for (const auto part : parts) travels_compressed_.insert(role_.buffers[part].tensor);
  during_ = during_compression(c_.plan);
  if (row.of_moments) moments_in_place_of(parts, place);
  auto compressed = row.sum == CompressedSum::Factors  ? sum_first_factors(std::move(parts), place)
                    : row.sum == CompressedSum::Shares ? sum_shares(std::move(parts), place)
                                                       : gather_compressed(std::move(parts), place);
  if (c_.plan.exact_steps > 0) {  // behind what reads the gradients: the update waits for the last that writes them
    during_ = During::Exact;
    all_reduce(whole, role_.buffers[compressed.parts.front()].tensor, place);
  }
  during_ = During::Training;
  return compressed;
}

Instruction RoleBuilder::compressing(InstructionKind kind, TensorId t, SumPlace place) const {
  auto i = instruction(kind, t, place.body, {}, {});
  i.when = place.when;
  i.collective = static_cast<std::int32_t>(role_.collectives.size());
  return i;
}

RoleBuilder::Compressed RoleBuilder::gather_compressed(std::vector<BufferIndex> parts, SumPlace place) {
  const auto first = role_.buffers[parts.front()].tensor;
  const auto vector = compressed_vector(parts, c_.program.axes[place.mesh_axis].size);
  auto i = compressing(InstructionKind::Compress, first, place);
  i.inputs = parts;
  i.outputs = {vector};
  if (compressor(c_.plan.compression.rule)->remembers)
    for (const auto part : parts) i.outputs.push_back(kept_of(part, graph::element_count(role_.buffers[part].shapes.front())));
  i.inputs.insert(i.inputs.end(), i.outputs.begin() + 1, i.outputs.end());
  emit(place.body, std::move(i));
  return {vector, exchange_bytes(CollectiveKind::AllGather, vector, first, place), std::move(parts), {}, place.mesh_axis};
}

void RoleBuilder::decompress(const Compressed& gathered, std::uint16_t body) {
  during_ = during_compression(c_.plan);
  if (compressor(c_.plan.compression.rule)->sum == CompressedSum::Factors)
    sum_second_factors(gathered, body);
  else
    decode(gathered, body);
  during_ = During::Training;
}

void RoleBuilder::decode(const Compressed& gathered, std::uint16_t body) {
  const auto tensor = role_.buffers[gathered.parts.front()].tensor;
  auto i = instruction(InstructionKind::Decompress, tensor, body, {gathered.vector}, gathered.parts);
  i.collective = gathered.collective;
  emit(body, std::move(i));
}

/// The one axis over which a gradient is summed: what decodes a sum of sums would be another compressor.
std::size_t RoleBuilder::axis_of_compressed(TensorId t, const std::vector<std::size_t>& mesh_axes) const {
  if (mesh_axes.size() == 1) return mesh_axes.front();
  throw Refusal("plan: compression=" + to_text(c_.plan.compression) + ": " + g_[t].name +
                " is summed over several axes of ranks; use dp alone, with or without pp");
}

}  // namespace rehearsal::plan
