#pragma once
// The arithmetic of a training step: what products are computed in, what of it stays wider, and how 8- and 4-bit operands are scaled.

#include <array>
#include <cstdint>
#include <string_view>

#include "platforms/platform.hpp"

namespace rehearsal::costmodel {

enum class Arithmetic : std::uint8_t { F32, Tf32, Half, Fp8, Fp4 };  ///< Half: f16 and bf16, with matrix units
inline constexpr std::array<std::string_view, 5> kArithmeticNames{"f32", "tf32", "16-bit", "fp8", "fp4"};

/// How many elements of an 8- or 4-bit operand share a scale.
enum class Scaling : std::uint8_t {
  None,    ///< 16 bits and more have none
  Tensor,  ///< all of them (Micikevicius et al., "FP8 Formats for Deep Learning", 2022)
  Row,     ///< one per row and column
  Block,   ///< 128, and 128 by 128 of weights (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.3)
  Micro,   ///< 32 of mxfp8, 16 of nvfp4, by the matrix units themselves (OCP Microscaling Formats, 2023)
};

/// What a job computes in.
struct Precision {
  Arithmetic arithmetic = Arithmetic::F32;
  Scaling scaling = Scaling::None;
  int element_bytes = 4;      ///< of activations
  bool matrix_units = false;  ///< alignment matters, Winograd is not used
  bool autocast = false;      ///< fp32 weights with 16-bit copies
  bool brain = false;         ///< bf16, which fp8 and fp4 have beside them
  double fill = 0;            ///< elements of k that filling and draining the main loop of a tile of a dense product cost
  double fill_share = 1;      ///< the same of other products, over those in 16 bits: slower arithmetic waits as long in time
  double reuse_share = 1;     ///< of the penalty of small tiles on 16-bit matrix units: slower arithmetic needs its operands less often
  double grouped_share = 1;   ///< share of the peak of products of many experts in one kernel, over that of dense ones
  double cast_bytes = 0;      ///< traffic per element of an operand that is cast to 8 or 4 bits
  double peak = 0;            ///< FLOP/s of `arithmetic`
  double half_peak = 0;       ///< FLOP/s of 16-bit matrix units, `peak` where there are none
  double scalar_peak = 0;     ///< FLOP/s of fp32 on CUDA cores

  /// Products are computed in 8 or 4 bits; what surrounds them in 16.
  [[nodiscard]] bool quantised() const { return arithmetic == Arithmetic::Fp8 || arithmetic == Arithmetic::Fp4; }
};

/// By which published runs are told apart: "32-bit" (tf32, too), "16-bit", "fp8" with a scale per tensor, "fp8-rowwise", "fp8-block",
/// "mxfp8", "fp4".
[[nodiscard]] std::string_view precision_class(const Precision&);

/// `text`: "fp32", "tf32", "fp16", "bf16", "amp", "amp-fp16", "amp_bf16", "fp8", "fp8-rowwise", "fp8-block", "mxfp8", "nvfp4", our dtype
/// names. 16-bit arithmetic on a device without matrix units stores 16 bits and computes in fp32, tf32 on one without it is fp32. Throws
/// Refusal naming the device when it has no 8- or 4-bit products of that kind, or no peak at all.
[[nodiscard]] Precision precision_of(const platforms::Device&, std::string_view text);

}  // namespace rehearsal::costmodel
