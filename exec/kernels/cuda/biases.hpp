#pragma once
// Biases of convolutions: one number per channel.

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec::cuda {

/// image[n, c, ...] += bias[c], in place.
void add_bias(DeviceStream, const graph::TensorType& image, bool channels_last, const void* bias, void* image_data);

}  // namespace rehearsal::exec::cuda
