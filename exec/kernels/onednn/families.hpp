#pragma once
#include <span>

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec::onednn {

[[nodiscard]] std::span<const KernelRow> convolution_kernels();
[[nodiscard]] std::span<const KernelRow> matmul_kernels();

}  // namespace rehearsal::exec::onednn
