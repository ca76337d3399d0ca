#include <vector>

#include "exec/kernels/cuda/families.hpp"

namespace rehearsal::exec::cuda {

std::span<const KernelRow> body_kernels() {
  static const std::vector<KernelRow> kRows = [] {
    std::vector<KernelRow> rows;
    for (auto* family : {elementwise_kernels, optimizer_kernels, gather_kernels, scatter_kernels, movement_kernels, dropout_kernels,
                         rotation_kernels, attention_kernels, attention_gradient_kernels}) {
      const auto more = family();
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  }();
  return kRows;
}

}  // namespace rehearsal::exec::cuda
