// What the module that exec/host/second_onednn.cpp opens exports.
#include "exec/kernels/onednn/families.hpp"

extern "C" __attribute__((visibility("default"))) const rehearsal::exec::onednn::LibraryKernels* rehearsal_onednn_kernels() {
  return &rehearsal::exec::onednn::library_kernels();
}
