#pragma once
// A device under one arithmetic: peaks of the datasheet and what of them kernels reach.

#include <string_view>

#include "costmodel/constants.hpp"
#include "costmodel/framework.hpp"
#include "costmodel/kernel_rows.hpp"
#include "costmodel/precision.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::costmodel {

/// What the rates depend on besides device and constants.
struct RateContext {
  const FrameworkProfile& framework;
  LaunchMode launch = LaunchMode::Eager;  ///< of this job, which may differ from the framework's other jobs
  bool image = false;                     ///< the graph has convolutions
};
[[nodiscard]] RateTable rates_of(const platforms::Device&, const Precision&, const RateContext&, const Constants&);
/// Bytes per second that element-wise kernels reach.
[[nodiscard]] double memory_rate(const platforms::Device&, const Constants&);
/// Whether attention runs fused under this framework on this device.
[[nodiscard]] bool fused_attention(const FrameworkProfile&, const platforms::Device&);
/// Hopper and newer by generation.
[[nodiscard]] bool is_hopper_or_newer(std::string_view generation);

}  // namespace rehearsal::costmodel
