// The kernels of the backend for GPUs, on the first GPU of this machine.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/error.hpp"
#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/gpu.hpp"
#include "exec/kernels/cuda/libraries.hpp"
#include "tests/exec/kernels/under_test.hpp"

namespace rehearsal::exec {
namespace {

constexpr int kSkipped = 77;  // as tests/exec/kernels/CMakeLists.txt says to ctest

std::vector<KernelRow> rows() {
  std::vector<KernelRow> rows;
  for (const auto more :
       {cuda::product_kernels(false), cuda::convolution_kernels(false), cuda::dnn_attention_kernels(), cuda::body_kernels()})
    rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

}  // namespace

UnderTest under_test() {
  try {
    static cuda::Gpu gpu(0);
    static const auto kRows = rows();
    return {kRows, gpu};
  } catch (const EnvironmentFailure& failure) {
    std::fprintf(stderr, "skipped: %s\n", failure.what());
    std::exit(kSkipped);
  }
}

}  // namespace rehearsal::exec
