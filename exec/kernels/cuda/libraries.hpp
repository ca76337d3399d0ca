#pragma once
// Kernels of NVIDIA's libraries, which need a GPU to be made (KernelRequest::device).

#include <span>

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec::cuda {

/// MatMul and Gemm. `tf32`: factors in f32 are rounded to 10 bits of fraction, for tensor cores.
[[nodiscard]] std::span<const KernelRow> product_kernels(bool tf32);
/// Convolutions, their gradients and transposed ones; `tf32` as above.
[[nodiscard]] std::span<const KernelRow> convolution_kernels(bool tf32);
/// Attention and its gradient in 16 bits; none where the backend was built without the headers of cuDNN's frontend.
[[nodiscard]] std::span<const KernelRow> dnn_attention_kernels();

}  // namespace rehearsal::exec::cuda
