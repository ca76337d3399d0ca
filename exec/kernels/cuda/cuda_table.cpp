#include <vector>

#include "exec/kernels/cuda/families.hpp"

namespace rehearsal::exec::cuda {

std::span<const KernelRow> body_kernels() {
  static const std::vector<KernelRow> kRows = [] {
    std::vector<KernelRow> rows;
    for (auto* family : {attention_kernels,
                         attention_gradient_kernels,
                         bias_kernels,
                         blockwise_softmax_kernels,
                         channels_last_normalization_kernels,
                         channels_last_pooling_kernels,
                         determinant_kernels,
                         dropout_kernels,
                         elementwise_kernels,
                         gather_kernels,
                         layer_normalization_kernels,
                         loss_kernels,
                         movement_kernels,
                         normalization_kernels,
                         optimizer_kernels,
                         pooling_kernels,
                         reduction_kernels,
                         resize_kernels,
                         rotation_kernels,
                         scatter_kernels,
                         selection_kernels,
                         softmax_kernels}) {
      const auto more = family();
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  }();
  return kRows;
}

}  // namespace rehearsal::exec::cuda
