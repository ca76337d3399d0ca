#pragma once
// Kernels made for instructions, before they are played.

#include <memory>

#include "exec/kernels/compute_backend.hpp"
#include "exec/play/operand_views.hpp"

namespace rehearsal::exec {

struct KernelPlace {
  const plan::Role& role;
  const graph::Graph& graph;
  const ComputeBackend& backend;
  const OperandViews& operands;
  int threads = 1;
};

/// Of a Kernel instruction, for shapes of that variant. `rate`: what its learning rate is multiplied with, where it follows a schedule.
/// Throws InternalError when it wants more workspace than the plan gave it.
[[nodiscard]] std::shared_ptr<Kernel> prepared_kernel(const KernelPlace&, const plan::Instruction&, std::size_t variant, double rate);

}  // namespace rehearsal::exec
