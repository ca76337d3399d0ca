#pragma once
#include <span>

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec {

/// Kernels through oneDNN (where built with it), and our own vectorised ones, in order of preference.
[[nodiscard]] std::span<const KernelRow> fast_kernels();

}  // namespace rehearsal::exec
