#include "exec/play/non_finite_look.hpp"

#include <algorithm>

namespace rehearsal::exec {

void NonFiniteLook::look(NonFiniteWatch& watch, const plan::Instruction& i, const OperandViews& operands, const PassSamples& pass) const {
  const HostCopies inputs(device_, operands.inputs()), made(device_, operands.outputs());
  std::vector<TensorView> outputs(made.views().begin(), made.views().end());
  for (std::size_t n = 0; n < outputs.size(); ++n)
    if (i.outputs[n] != plan::kNoBuffer && !holds_numbers(role_.buffers[i.outputs[n]])) outputs[n] = {};
  watch.look({inputs.views(), outputs},
             [&](std::size_t output, std::int64_t element) { return described(i, outputs[output].type->shape, output, element, pass); });
}

BadTensor NonFiniteLook::described(const plan::Instruction& i, const graph::Shape& shape, std::size_t output, std::int64_t element,
                                   const PassSamples& pass) const {
  const auto& buffer = role_.buffers[i.outputs[output]];
  BadTensor bad;
  bad.tensor = g_[buffer.tensor].name;
  bad.made_by = i.kind == plan::InstructionKind::Kernel ? std::string(graph::schema(g_[i.node]).name) + " " + g_[i.node].name
                                                        : std::string(plan::name(i.kind));
  if (i.kind == plan::InstructionKind::Load) {
    const auto samples = loading_.samples(buffer, pass.place);
    const auto per_sample = std::max<std::int64_t>(1, graph::element_count(shape) / samples.count);
    bad.made_by = pass.data.origin_of(samples.first + element / per_sample);
  }
  bad.in_backward = pass.backward;
  bad.micro_batch = pass.micro_batch;
  return bad;
}

}  // namespace rehearsal::exec
