#pragma once
#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec::reference {

/// A kernel for operands and results in f16 or bf16: those are widened to f32, `make` makes the kernel that computes, and its results are
/// rounded. nullptr with the reason when nothing is that narrow, or `make` refuses.
using MakeKernel = std::unique_ptr<Kernel> (*)(const KernelRequest& request, std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_widened(const KernelRequest& request, MakeKernel make, std::string& reason);

}  // namespace rehearsal::exec::reference
