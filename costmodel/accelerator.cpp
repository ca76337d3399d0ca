#include "costmodel/accelerator.hpp"

#include <algorithm>

#include "costmodel/attention_kernels.hpp"
#include "costmodel/power.hpp"
#include "costmodel/product_kernels.hpp"

namespace rehearsal::costmodel {
namespace {

using C = Coefficient;

/// Devices of one generation share kernels, and so the share of their peaks that these reach.
struct GenerationRow {
  std::string_view generation;
  Coefficient half, scalar, memory;
  double joules = 0;  ///< of one FLOP of 16-bit products at the clock of the peak; 0: not known to be limited by power
};
// Joules from boards of one generation with different limits: V100 gain 8 and 20 % at 350 and 450 W over 300 W (DGX-2 and DGX-2H in
// DeepLearningExamples); a T4 holds 24 of 65 TFLOP/s at 70 W (NVIDIA developer forum 264462); an A100 in a slot of 250 W holds 158 TFLOP/s
// where a module of 400 W holds 235 (NVIDIA/cutlass issue 956); H100 by its modules of 500 and 700 W.
constexpr GenerationRow kGenerations[] = {
    {"kepler", C::Matmul16bitOther, C::MatmulF32Old, C::MemoryPascal},
    {"maxwell", C::Matmul16bitOther, C::MatmulF32Old, C::MemoryPascal},
    {"pascal", C::Matmul16bitOther, C::MatmulF32, C::MemoryPascal},
    {"pascal-gp10x", C::Matmul16bitOther, C::MatmulF32, C::MemoryPascal},
    {"volta", C::Matmul16bitVolta, C::MatmulF32, C::MemoryGddrVolta, 3.36e-12},
    {"turing", C::Matmul16bitVolta, C::MatmulF32, C::MemoryGddrVolta, 1.9e-12},
    {"ampere", C::Matmul16bitAmpere, C::MatmulF32, C::MemoryAmpere, 1.12e-12},
    {"ampere-ga10x", C::Matmul16bitConsumer, C::MatmulF32, C::MemoryGddrVolta, 1.6e-12},
    {"ada", C::Matmul16bitConsumer, C::MatmulF32, C::MemoryGddrVolta, 1.3e-12},
    {"hopper", C::Matmul16bitHopper, C::MatmulF32, C::MemoryHopper, 0.64e-12},
    {"blackwell", C::Matmul16bitBlackwell, C::MatmulF32, C::MemoryHopper, 0.6e-12},
    {"blackwell-ultra", C::Matmul16bitBlackwellUltra, C::MatmulF32, C::MemoryHopper, 0.6e-12},
    {"cdna3", C::Matmul16bitCdna, C::MatmulF32, C::MemoryHopper},
    {"cdna4", C::Matmul16bitCdna, C::MatmulF32, C::MemoryHopper},
    {"blackwell-gb20x", C::Matmul16bitConsumer, C::MatmulF32, C::MemoryGddrVolta},
};
constexpr GenerationRow kOther{"", C::Matmul16bitOther, C::MatmulF32, C::MemoryGddrVolta};
constexpr GenerationRow kProcessor{"", C::MatmulCpu, C::MatmulCpu, C::MemoryCpu};
constexpr double kRowScaledShare = 0.65;  // of the fp8 rate: row-wise scaled kernels of 2025

const GenerationRow& row_of(const platforms::Device& d) {
  if (d.kind == platforms::DeviceKind::Cpu) return kProcessor;
  const auto found =
      std::find_if(std::begin(kGenerations), std::end(kGenerations), [&](const auto& r) { return r.generation == d.generation; });
  return found == std::end(kGenerations) ? kOther : *found;
}

double accelerator_peak_of(const platforms::Device& d, std::string_view key) { return d.peak(key).value_or(FlopsPerSecond(0)).value(); }

/// Clock of large products on matrix units under the board's own limit of power.
double clock_of_products(const platforms::Device& d, const GenerationRow& row, const Constants& c) {
  const double needed = row.joules * std::max(accelerator_peak_of(d, "f16"), accelerator_peak_of(d, "bf16")), rest = resting_power(d);
  const double left = std::max(0.0, d.busy_power.value.value() - rest);
  return needed > 0 ? std::max(kLeastClock, clock_under(left / needed, c)) : 1;
}

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
    case Arithmetic::Fp4:
      share = c[row.half] * share_over_16_bits(d.generation, p.arithmetic, p.scaling) * (p.scaling == Scaling::Row ? kRowScaledShare : 1.0);
      break;
    case Arithmetic::Half:
      share = c[row.half];
      break;
  }
  return share * clock_of_products(d, row, c);
}

/// Over the share of 16-bit products: as the quickest kernels measured alone, times what training's reach of these.
double attention_share(const platforms::Device& d, const FrameworkProfile& f, const Constants& c) {
  const auto& measured = attention_kernels(d.generation);
  const double alone = measured.share / product_kernels(measured.generation, Arithmetic::Half, Scaling::None).share;
  if (f.attention == AttentionKernel::FlashTuned) return alone * c[C::FlashAttentionTuned];
  return alone * (is_hopper_or_newer(d.generation) ? c[C::FlashAttentionHopper] : c[C::FlashAttention]);
}

double convolution_share(Arithmetic a, const Constants& c) {
  if (a == Arithmetic::F32) return c[C::ConvolutionF32];
  return a == Arithmetic::Tf32 ? c[C::ConvolutionTf32] : c[C::Convolution16bit];
}

double host_of(const FrameworkProfile& f, LaunchMode launch, const Constants& c) {
  switch (launch) {
    case LaunchMode::Eager:
      return c[f.host_bound ? C::HostSecondsPerKernel : C::HostEager] * 1e-6;
    case LaunchMode::Static:
      return c[C::HostStatic] * 1e-6;
    case LaunchMode::Captured:
      break;
  }
  return 0;
}

}  // namespace

bool is_hopper_or_newer(std::string_view generation) {
  return generation == "hopper" || generation == "blackwell" || generation == "blackwell-ultra";
}

double memory_rate(const platforms::Device& d, const Constants& c) { return d.memory_bandwidth.value.value() * c[row_of(d).memory]; }

bool fused_attention(const FrameworkProfile& f, const platforms::Device& d) {
  if (f.attention == AttentionKernel::Plain) return false;
  return !f.attention_needs_hopper || is_hopper_or_newer(d.generation);
}

namespace {

/// GeForce and TITAN boards run above the boost clock of their datasheets while power and temperature allow (NVIDIA GPU Boost); boards for
/// data centres and workstations hold theirs at most.
double boost_of(const platforms::Device& d) {
  constexpr double kGeForceBoost = 1.1;
  constexpr std::string_view kBeginnings[] = {"GTX-", "RTX-20", "RTX-30", "RTX-40", "RTX-50", "TITAN-"};
  const bool geforce = std::any_of(std::begin(kBeginnings), std::end(kBeginnings), [&](auto b) { return d.name.starts_with(b); });
  return geforce ? kGeForceBoost : 1;
}

}  // namespace

/// Eigenvectors, bases and inverses by Eigen 3.4 on one core of an AMD EPYC reached 4.0e9 to 9.8e9 for matrices of 128 to 2,048 rows; no
/// GPU computes them here.
constexpr double kDecompositionRate = 8e9;

RateTable rates_of(const platforms::Device& d, const Precision& p, const RateContext& context, const Constants& c) {
  RateTable t;
  const double bandwidth = memory_rate(d, c);
  t.bytes_per_second.fill(bandwidth);
  const auto rate = [&](RateKind kind) -> double& { return t.flops_per_second[static_cast<std::size_t>(kind)]; };
  const double boost = boost_of(d), matmul = boost * p.peak * matmul_share(d, p, c);
  // Attention, convolutions and the product that makes the logits run in 16 bits.
  Precision half = p;
  if (p.quantised()) {
    half.arithmetic = Arithmetic::Half;
    half.peak = p.half_peak;
  }
  const double wide = boost * half.peak * matmul_share(d, half, c);
  rate(RateKind::Matmul) = matmul;
  rate(RateKind::WideMatmul) = wide;
  const double older = d.generation.starts_with("pascal") ? c[C::ConvolutionPascal] : 1;
  rate(RateKind::Convolution) = wide * convolution_share(half.arithmetic, c) * older;
  rate(RateKind::Winograd) = matmul * c[C::Winograd] * older;
  rate(RateKind::BatchedMatmul) = wide * c[C::BatchedMatmul];
  rate(RateKind::FlashAttention) = wide * attention_share(d, context.framework, c);
  rate(RateKind::CudaCoreMatmul) = boost * c[row_of(d).scalar] * p.scalar_peak;
  rate(RateKind::Depthwise) = boost * p.scalar_peak * c[C::DepthwiseF32];
  rate(RateKind::Decomposition) = kDecompositionRate;
  rate(RateKind::Elementwise) = rate(RateKind::ScoreElementwise) = p.scalar_peak;
  t.bytes_per_second[static_cast<std::size_t>(RateKind::Depthwise)] = bandwidth * c[C::MemoryDepthwise];
  if (context.image && context.framework.normalization_fusion == 1)
    t.bytes_per_second[static_cast<std::size_t>(RateKind::Elementwise)] = bandwidth / c[C::ElementwiseUnoptimised];
  t.gap = c[context.launch == LaunchMode::Captured ? C::GapCaptured : C::GapQueued] * 1e-6;
  t.host = host_of(context.framework, context.launch, c);
  return t;
}

}  // namespace rehearsal::costmodel
