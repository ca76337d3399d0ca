#include "costmodel/accelerator.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace rehearsal::costmodel {
namespace {

using C = Coefficient;

/// Devices of one generation share kernels, and so the share of their peaks that these reach.
struct GenerationRow {
  std::string_view generation;
  Coefficient half, scalar, memory;
};
constexpr GenerationRow kGenerations[] = {
    {"kepler", C::Matmul16bitOther, C::MatmulF32Old, C::MemoryPascal},
    {"maxwell", C::Matmul16bitOther, C::MatmulF32Old, C::MemoryPascal},
    {"pascal", C::Matmul16bitOther, C::MatmulF32Pascal, C::MemoryPascal},
    {"pascal-gp10x", C::Matmul16bitOther, C::MatmulF32Pascal, C::MemoryPascal},
    {"volta", C::Matmul16bitVolta, C::MatmulF32, C::MemoryGddrVolta},
    {"turing", C::Matmul16bitVolta, C::MatmulF32, C::MemoryGddrVolta},
    {"ampere", C::Matmul16bitAmpere, C::MatmulF32, C::MemoryAmpere},
    {"ampere-ga10x", C::Matmul16bitConsumer, C::MatmulF32, C::MemoryGddrVolta},
    {"ada", C::Matmul16bitConsumer, C::MatmulF32, C::MemoryGddrVolta},
    {"hopper", C::Matmul16bitHopper, C::MatmulF32, C::MemoryHopper},
    {"blackwell", C::Matmul16bitOther, C::MatmulF32, C::MemoryHopper},
    {"blackwell-gb20x", C::Matmul16bitConsumer, C::MatmulF32, C::MemoryGddrVolta},
};
constexpr GenerationRow kOther{"", C::Matmul16bitOther, C::MatmulF32, C::MemoryGddrVolta};
constexpr double kFullHopperWatts = 700;
constexpr double kScalarFillShare = 1.0 / 8;  // CUDA cores over matrix units
constexpr double kRowScaledShare = 0.65;      // of the fp8 rate: row-wise scaled kernels of 2025

const GenerationRow& row_of(const platforms::Device& d) {
  const auto found =
      std::find_if(std::begin(kGenerations), std::end(kGenerations), [&](const auto& r) { return r.generation == d.generation; });
  return found == std::end(kGenerations) ? kOther : *found;
}

double peak_of(const platforms::Device& d, std::string_view key) { return d.peak(key).value_or(FlopsPerSecond(0)).value(); }

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// Share of `p.peak` that large dense products reach.
double matmul_share(const platforms::Device& d, const Precision& p, const Constants& c) {
  const auto& row = row_of(d);
  double share = 0;
  switch (p.arithmetic) {
    case Arithmetic::F32:
      return c[row.scalar];
    case Arithmetic::Tf32:
      share = c[C::MatmulTf32];
      break;
    case Arithmetic::Fp8:
      share = c[C::MatmulFp8] * (p.row_scaled ? kRowScaledShare : 1.0);
      break;
    case Arithmetic::Half:
      share = c[row.half];
      break;
  }
  const double watts = d.busy_power.value.value();
  if (d.generation == "hopper" && watts > 0 && watts < kFullHopperWatts)
    share *= std::pow(watts / kFullHopperWatts, c[C::PowerLimitedClock]);
  return share;
}

double attention_share(const platforms::Device& d, const FrameworkProfile& f, const Constants& c) {
  if (f.attention == AttentionKernel::FlashTuned) return c[C::FlashAttentionTuned];
  return is_hopper_or_newer(d.generation) ? c[C::FlashAttentionHopper] : c[C::FlashAttention];
}

double convolution_share(Arithmetic a, const Constants& c) {
  if (a == Arithmetic::F32) return c[C::ConvolutionF32];
  return a == Arithmetic::Tf32 ? c[C::ConvolutionTf32] : c[C::Convolution16bit];
}

double gap_of(LaunchMode mode, const Constants& c) {
  constexpr Coefficient kGaps[] = {C::GapEager, C::GapStatic, C::GapCaptured};
  return c[kGaps[static_cast<std::size_t>(mode)]] * 1e-6;
}

}  // namespace

bool is_hopper_or_newer(std::string_view generation) { return generation == "hopper" || generation == "blackwell"; }

Precision precision_of(const platforms::Device& d, std::string_view text) {
  Precision p;
  p.scalar_peak = peak_of(d, "f32");
  const double half = std::max(peak_of(d, "f16"), peak_of(d, "bf16"));
  p.half_peak = half > 0 ? half : p.scalar_peak;
  p.peak = p.scalar_peak;
  p.autocast = holds(text, "amp") || holds(text, "mixed");
  p.brain = holds(text, "bf16");
  const bool eight = holds(text, "fp8") || holds(text, "f8"), narrow = p.autocast || holds(text, "16") || eight;
  if (eight && peak_of(d, "fp8") > 0) {
    p.arithmetic = Arithmetic::Fp8;
    p.peak = peak_of(d, "fp8");
    p.row_scaled = holds(text, "row");
  } else if (narrow && half > 0 && (d.on_matrix_units("f16") || d.on_matrix_units("bf16"))) {
    p.arithmetic = Arithmetic::Half;
    p.peak = half;
  } else if (holds(text, "tf32") && peak_of(d, "tf32") > 0) {
    p.arithmetic = Arithmetic::Tf32;
    p.peak = peak_of(d, "tf32");
  }
  p.fill_share = p.arithmetic == Arithmetic::F32 ? kScalarFillShare : 1.0;
  p.element_bytes = narrow ? 2 : 4;
  p.matrix_units = p.arithmetic != Arithmetic::F32;
  if (p.peak <= 0) throw Refusal("device " + d.name + " has no peak for " + std::string(text));
  return p;
}

double memory_rate(const platforms::Device& d, const Constants& c) { return d.memory_bandwidth.value.value() * c[row_of(d).memory]; }

bool fused_attention(const FrameworkProfile& f, const platforms::Device& d) {
  if (f.attention == AttentionKernel::Plain) return false;
  return !f.attention_needs_hopper || is_hopper_or_newer(d.generation);
}

RateTable rates_of(const platforms::Device& d, const Precision& p, const RateContext& context, const Constants& c) {
  RateTable t;
  const double bandwidth = memory_rate(d, c);
  t.bytes_per_second.fill(bandwidth);
  const auto rate = [&](RateKind kind) -> double& { return t.flops_per_second[static_cast<std::size_t>(kind)]; };
  const double matmul = p.peak * matmul_share(d, p, c);
  // Attention and convolutions of an fp8 job run in 16 bits.
  Precision half = p;
  if (p.arithmetic == Arithmetic::Fp8) {
    half.arithmetic = Arithmetic::Half;
    half.peak = p.half_peak;
  }
  const double wide = half.peak * matmul_share(d, half, c);
  rate(RateKind::Matmul) = matmul;
  rate(RateKind::Convolution) = wide * convolution_share(half.arithmetic, c);
  rate(RateKind::Winograd) = matmul * c[C::Winograd];
  rate(RateKind::BatchedMatmul) = wide * c[C::BatchedMatmul];
  rate(RateKind::FlashAttention) = wide * attention_share(d, context.framework, c);
  rate(RateKind::CudaCoreMatmul) = c[row_of(d).scalar] * p.scalar_peak;
  rate(RateKind::Depthwise) = p.scalar_peak * c[C::DepthwiseF32];
  rate(RateKind::Elementwise) = rate(RateKind::ScoreElementwise) = p.scalar_peak;
  t.bytes_per_second[static_cast<std::size_t>(RateKind::Depthwise)] = bandwidth * c[C::MemoryDepthwise];
  if (context.image && context.framework.normalization_fusion == 1)
    t.bytes_per_second[static_cast<std::size_t>(RateKind::Elementwise)] = bandwidth / c[C::ElementwiseUnoptimised];
  t.gap = gap_of(context.framework.launch, c);
  return t;
}

}  // namespace rehearsal::costmodel
