#pragma once
#include <span>
#include <string>
#include <vector>

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec::onednn {

[[nodiscard]] std::span<const KernelRow> convolution_kernels();
[[nodiscard]] std::span<const KernelRow> matmul_kernels();
[[nodiscard]] std::span<const KernelRow> outer_product_kernels();
/// "2.6.3", of the library that is loaded.
[[nodiscard]] std::string library_version();

/// All kernels of one oneDNN.
struct LibraryKernels {
  std::string version;
  std::vector<KernelRow> rows;  ///< in order of preference
};
/// Of the one that these sources are compiled with: the program's, or that of a module (onednn_module.cpp).
[[nodiscard]] const LibraryKernels& library_kernels();

}  // namespace rehearsal::exec::onednn
