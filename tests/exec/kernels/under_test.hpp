#pragma once
// Which kernels, on which device, the tests of single nodes run: the reference ones, or those for GPUs.

#include <span>

#include "exec/kernels/compute_device.hpp"
#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec {

struct UnderTest {
  std::span<const KernelRow> kernels;  ///< looked at before the reference ones, which run on the host
  ComputeDevice& device;
};
[[nodiscard]] UnderTest under_test();

}  // namespace rehearsal::exec
