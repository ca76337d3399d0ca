// Compress, Recompress and Decompress of gradients that travel as two factors (plan/low_rank.hpp). Gradients that travel as they are lie in
// the first vector; the second has the others' alone.
#include <cstring>

#include "exec/host/compressors/power_sgd.hpp"
#include "exec/play/compressed_sums.hpp"
#include "exec/play/on_host.hpp"

namespace rehearsal::exec {

using plan::BufferIndex;
using plan::Instruction;

void CompressedSums::play_factors(const Instruction& i, const Address& at, StepDraw when) const {
  switch (i.kind) {
    case plan::InstructionKind::Compress:
      return first_factors(i, at, when);
    case plan::InstructionKind::Recompress:
      return second_factors(i, at, when);
    default:
      return sums_of_factors(i, at, when);
  }
}

CompressedSums::Factored CompressedSums::factored(BufferIndex gradient, StepDraw when) const {
  const auto& part = role_.buffers[gradient];
  const auto task = task_of(gradient, 0, when);
  return {{plan::factors_of(part.shapes.front(), program_.plan.compression.setting), task.step_seed, task.shared_stream},
          part.dtype,
          static_cast<std::int64_t>(size_of(part.dtype)),
          part.bytes};
}

void CompressedSums::first_factors(const Instruction& i, const Address& at, StepDraw when) const {
  OnHost vector(device_, at(i.outputs.front()), role_.buffers[i.outputs.front()].bytes);
  auto* to = vector.data();
  std::size_t next = 1;  // of what is kept
  for (const auto g : plan::gradients_of(i)) {
    const auto f = factored(g, when);
    OnHost gradient(device_, at(g), f.bytes);
    gradient.fetch();
    if (f.task.size.any()) {
      const auto k = i.outputs[next++];
      OnHost kept(device_, at(k), role_.buffers[k].bytes);
      kept.fetch();
      first_factor(f.dtype, f.task, gradient.data(), kept.data(), to);
      kept.store();
      gradient.store();
    } else {
      std::memcpy(to, gradient.data(), static_cast<std::size_t>(f.task.size.first() * f.element));
    }
    to += f.task.size.first() * f.element;
  }
  vector.store();
}

void CompressedSums::second_factors(const Instruction& i, const Address& at, StepDraw when) const {
  OnHost first(device_, at(i.inputs.front()), role_.buffers[i.inputs.front()].bytes);
  OnHost second(device_, at(i.outputs.front()), role_.buffers[i.outputs.front()].bytes);
  first.fetch();
  const auto* from = first.data();
  auto* to = second.data();
  for (const auto g : plan::gradients_of(i)) {
    const auto f = factored(g, when);
    if (f.task.size.any()) {
      OnHost gradient(device_, at(g), f.bytes);
      gradient.fetch();
      second_factor(f.dtype, f.task, gradient.data(), from, to);
    }
    from += f.task.size.first() * f.element;
    to += f.task.size.second() * f.element;
  }
  second.store();
}

void CompressedSums::sums_of_factors(const Instruction& i, const Address& at, StepDraw when) const {
  const auto axis = role_.collectives[static_cast<std::size_t>(i.collective)].axis;
  OnHost first(device_, at(i.inputs.front()), role_.buffers[i.inputs.front()].bytes);
  first.fetch();
  const auto gradients = plan::gradients_of(i);
  const bool both = i.inputs.size() > 1;
  OnHost second(device_, both ? at(i.inputs[1]) : nullptr, both ? role_.buffers[i.inputs[1]].bytes : 0);
  if (both) second.fetch();
  const std::byte *p = first.data(), *q = second.data();
  std::size_t next = gradients.size();  // of what is kept
  for (const auto g : gradients) {
    const auto f = factored(g, when);
    OnHost gradient(device_, at(g), f.bytes);
    if (f.task.size.any()) {
      const auto k = i.outputs[next++];
      OnHost kept(device_, at(k), role_.buffers[k].bytes);
      kept.fetch();
      gradient.fetch();
      from_factors(f.dtype, f.task, {p, q, program_.axes[axis].size}, gradient.data(), kept.data());
      kept.store();
    } else {
      std::memcpy(gradient.data(), p, static_cast<std::size_t>(f.task.size.first() * f.element));
    }
    gradient.store();
    p += f.task.size.first() * f.element;
    q += f.task.size.second() * f.element;
  }
}

}  // namespace rehearsal::exec
