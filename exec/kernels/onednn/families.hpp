#pragma once
#include <span>
#include <string>

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec::onednn {

[[nodiscard]] std::span<const KernelRow> convolution_kernels();
[[nodiscard]] std::span<const KernelRow> matmul_kernels();
[[nodiscard]] std::span<const KernelRow> outer_product_kernels();
/// "oneDNN 2.6.3", of the library that is loaded.
[[nodiscard]] std::string library_version();

}  // namespace rehearsal::exec::onednn
