// Attention that one kernel computes (sharding/fusion.hpp): forward in place of its last node, backward in place of the first that
// differentiates it. By then all that comes from outside is there, and nobody outside asks before.

#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;

bool RoleBuilder::lower_in_kernel(NodeId n, std::uint16_t body) {
  const FusedAttention* fused = c_.sharding.fused_at(n);
  if (!fused) return false;
  if (n == fused->forward.back()) attend_at_once(*fused, body);
  if (!fused->backward.empty() && n == fused->backward.front())
    emit_fused({n, "AttentionGrad", fused->attributes, fused->backward_operands, fused->gradients}, body);
  return true;
}

void RoleBuilder::attend_at_once(const FusedAttention& fused, std::uint16_t body) {
  const NodeId last = fused.forward.back();
  emit_fused({last, "Attention", fused.attributes, fused.operands, {g_[last].outputs.front()}}, body);
}

void RoleBuilder::emit_fused(const FusedKernel& kernel, std::uint16_t body) {
  Instruction instruction;
  instruction.phase = again_ ? graph::Phase::Backward : g_[kernel.node].phase;
  instruction.node = kernel.node;
  for (const Use& use : kernel.operands) instruction.inputs.push_back(operand(use.node, use.operand, body));
  std::vector<Buffer> results(kernel.results.size());
  std::vector<const Buffer*> wanted;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const TensorId t = kernel.results[i];
    if (t != TensorId::None) results[i] = describe(t, body);
    wanted.push_back(t == TensorId::None ? nullptr : &results[i]);
  }
  const auto offer = offer_for({graph::op_table()[graph::op(kernel.op)], kernel.attributes, instruction.inputs}, wanted);
  for (std::size_t i = 0; i < instruction.inputs.size(); ++i)
    instruction.inputs[i] = in_format_of(kernel.operands[i], instruction.inputs[i], offer.input_formats[i], body);
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].format = offer.output_formats[i];
    instruction.outputs.push_back(wanted[i] == nullptr ? kNoBuffer : place_result(kernel.results[i], std::move(results[i])));
  }
  set_kernel(instruction, offer, kernel.op);
  set_attributes(instruction, kernel.attributes);
  emit(body, std::move(instruction));
}

}  // namespace rehearsal::plan
