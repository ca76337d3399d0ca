#pragma once
#include <span>
#include <string>

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec {

/// Kernels through oneDNN (where built with it), and our own vectorised ones, in order of preference.
[[nodiscard]] std::span<const KernelRow> fast_kernels();
/// The libraries that they and those of second_onednn.hpp use, with versions: "oneDNN 2.6.3", or "oneDNN 2.6.3 and 3.2.0".
[[nodiscard]] std::string kernel_libraries();
/// The best instruction set that they use here, and to which oneDNN is limited, where it is: "amx", or "avx2, in oneDNN AVX2".
[[nodiscard]] std::string kernel_instructions();

}  // namespace rehearsal::exec
