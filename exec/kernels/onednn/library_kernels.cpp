#include "exec/kernels/onednn/families.hpp"

namespace rehearsal::exec::onednn {

const LibraryKernels& library_kernels() {
  static const LibraryKernels kKernels = [] {
    LibraryKernels kernels{library_version(), {}};
    for (auto* family : {convolution_kernels, matmul_kernels, outer_product_kernels})
      kernels.rows.insert(kernels.rows.end(), family().begin(), family().end());
    return kernels;
  }();
  return kKernels;
}

}  // namespace rehearsal::exec::onednn
