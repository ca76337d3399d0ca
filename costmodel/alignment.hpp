#pragma once
// Products of odd sizes on GPUs: matrix units are fed by 16 bytes at a time, and rows that do not begin at multiples of them cost speed.

#include <string_view>

#include "costmodel/calibration.hpp"

namespace rehearsal::costmodel {

/// Bytes at multiples of which the rows of all matrices of this type begin, at most 16; told by a kernel's signature.
[[nodiscard]] int row_alignment(std::string_view signature, DType);

/// Share of the rate of products whose rows begin at multiples of 16 bytes that this kernel reaches on a GPU; 1 of all but products in 16
/// bits. Measured on an H100 with cuBLASLt 13.0 in bf16: 8192 x 768 by 768 x 50257 and its gradients (rows at multiples of 2 bytes) reach
/// 120 to 152 TFLOP/s, of 30522 columns (4 bytes) 222 to 237, others of the same networks 575 to 650. What rows at 8 bytes reach is between
/// the last two, and was not measured.
[[nodiscard]] double share_by_alignment(const KernelCase&);

}  // namespace rehearsal::costmodel
