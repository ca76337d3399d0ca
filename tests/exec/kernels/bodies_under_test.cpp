// The bodies of the kernels for GPUs, compiled for the host.
#include "exec/kernels/cuda/families.hpp"
#include "tests/exec/kernels/under_test.hpp"

namespace rehearsal::exec {

UnderTest under_test() {
  static const auto kHost = make_host();
  return {cuda::body_kernels(), *kHost};
}

}  // namespace rehearsal::exec
