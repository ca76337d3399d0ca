#pragma once
#include <span>

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec {

/// Kernels through oneDNN, and our own vectorised ones, in order of preference. Empty when built without oneDNN.
[[nodiscard]] std::span<const KernelRow> fast_kernels();

}  // namespace rehearsal::exec
