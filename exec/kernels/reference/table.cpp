#include <vector>

#include "exec/kernels/reference/families.hpp"

namespace rehearsal::exec {

std::span<const KernelRow> reference_kernels() {
  static const std::vector<KernelRow> kRows = [] {
    using namespace reference;
    std::vector<KernelRow> rows;
    for (auto* family : {elementwise_kernels,
                         matmul_kernels,
                         delta_rule_kernels,
                         sinkhorn_kernels,
                         reduction_kernels,
                         movement_kernels,
                         rotation_kernels,
                         gather_kernels,
                         scatter_kernels,
                         selection_kernels,
                         softmax_kernels,
                         blockwise_softmax_kernels,
                         attention_kernels,
                         convolution_kernels,
                         pooling_kernels,
                         normalization_kernels,
                         layer_normalization_kernels,
                         resize_kernels,
                         dropout_kernels,
                         loss_kernels,
                         optimizer_kernels}) {
      const auto more = family();
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  }();
  return kRows;
}

}  // namespace rehearsal::exec
