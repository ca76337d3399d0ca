#pragma once
// NVIDIA GPUs as cuDNN wants them described that plans for one that is not here.

#include <string>

#include "platforms/platform.hpp"

namespace rehearsal::exec::cuda {

/// The 24 properties of CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR as JSON: what the catalogue knows of the device, and what every GPU of its
/// compute capability has. Throws Refusal naming what is not known of it.
/// Sources: NVIDIA, "cuDNN Backend API", CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION; "CUDA C++ Programming Guide", technical specifications
/// per compute capability.
[[nodiscard]] std::string device_properties(const platforms::Device&);

}  // namespace rehearsal::exec::cuda
