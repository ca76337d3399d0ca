#pragma once
// A device under one arithmetic: peaks of the datasheet and what of them kernels reach.

#include <cstdint>
#include <string>
#include <string_view>

#include "costmodel/constants.hpp"
#include "costmodel/framework.hpp"
#include "costmodel/kernel_rows.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::costmodel {

enum class Arithmetic : std::uint8_t { F32, Tf32, Half, Fp8 };  ///< Half: f16 and bf16, with matrix units

/// What a job computes in. Throws Refusal when the device's peaks do not hold it.
struct Precision {
  Arithmetic arithmetic = Arithmetic::F32;
  int element_bytes = 4;      ///< of activations
  bool matrix_units = false;  ///< alignment matters, Winograd is not used
  bool autocast = false;      ///< fp32 weights with 16-bit copies
  bool brain = false;         ///< bf16
  bool row_scaled = false;    ///< fp8 with a scale per row
  double fill_share = 1;      ///< of the elements of k that filling a tile costs in 16 bits: slower arithmetic waits as long in time
  double reuse_share = 1;     ///< of the penalty of small tiles on 16-bit matrix units: slower arithmetic needs its operands less often
  double peak = 0;            ///< FLOP/s of `arithmetic`
  double half_peak = 0;       ///< FLOP/s of 16-bit matrix units, `peak` where there are none
  double scalar_peak = 0;     ///< FLOP/s of fp32 on CUDA cores
};

/// `text`: "fp32", "tf32", "fp16", "bf16", "amp", "amp-fp16", "amp_bf16", "fp8", "fp8 rowwise", our dtype names. 16-bit arithmetic on a
/// device without matrix units stores 16 bits and computes in fp32.
[[nodiscard]] Precision precision_of(const platforms::Device&, std::string_view text);

/// What the rates depend on besides device and constants.
struct RateContext {
  const FrameworkProfile& framework;
  bool image = false;  ///< the graph has convolutions
};
[[nodiscard]] RateTable rates_of(const platforms::Device&, const Precision&, const RateContext&, const Constants&);
/// Bytes per second that element-wise kernels reach.
[[nodiscard]] double memory_rate(const platforms::Device&, const Constants&);
/// Whether attention runs fused under this framework on this device.
[[nodiscard]] bool fused_attention(const FrameworkProfile&, const platforms::Device&);
/// Hopper and newer by generation.
[[nodiscard]] bool is_hopper_or_newer(std::string_view generation);

}  // namespace rehearsal::costmodel
