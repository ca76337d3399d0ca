#include "costmodel/precision.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "costmodel/product_kernels.hpp"

namespace rehearsal::costmodel {
namespace {

constexpr double kScalarFillShare = 1.0 / 8;  // CUDA cores over matrix units
constexpr double kScalarReuseShare = 1.0 / 4;

double precision_peak_of(const platforms::Device& d, std::string_view key) { return d.peak(key).value_or(FlopsPerSecond(0)).value(); }

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// Parts of what people write, the more special ones first.
struct NarrowRow {
  std::string_view part;
  Arithmetic arithmetic;
  Scaling scaling;
  std::string_view peak;   ///< that a device must have
  std::string_view units;  ///< the same: scales of few elements are the business of matrix units that have 4-bit products, too
};
constexpr NarrowRow kNarrow[] = {
    {"fp4", Arithmetic::Fp4, Scaling::Micro, "fp4", "fp4"}, {"mxfp8", Arithmetic::Fp8, Scaling::Micro, "fp8", "fp4"},
    {"fp8", Arithmetic::Fp8, Scaling::Tensor, "fp8", ""},   {"float8", Arithmetic::Fp8, Scaling::Tensor, "fp8", ""},
    {"f8", Arithmetic::Fp8, Scaling::Tensor, "fp8", ""},
};
struct ScalingRow {
  std::string_view part;
  Scaling scaling;
};
constexpr ScalingRow kScalings[] = {
    {"row", Scaling::Row}, {"block", Scaling::Block}, {"subchannel", Scaling::Block}, {"-sc", Scaling::Block}, {"tensor", Scaling::Tensor}};

const NarrowRow* narrow_row(std::string_view text) {
  const auto* row = std::ranges::find_if(kNarrow, [&](const NarrowRow& r) { return holds(text, r.part); });
  return row == std::end(kNarrow) ? nullptr : row;
}

void quantise(Precision& p, const NarrowRow& row, const platforms::Device& d, std::string_view text) {
  if (precision_peak_of(d, row.peak) <= 0)
    throw Refusal("device " + d.name + " has no products in " + std::string(row.peak) + ", which " + std::string(text) + " is computed in" +
                  (precision_peak_of(d, "fp8") > 0 ? "; it has fp8" : "; use bf16 or fp16"));
  if (!row.units.empty() && !d.on_matrix_units(row.units))
    throw Refusal("device " + d.name + " has no matrix units that scale a few elements each, as " + std::string(text) +
                  " wants; it has fp8, fp8-rowwise and fp8-block");
  p.arithmetic = row.arithmetic;
  p.scaling = row.scaling;
  if (row.scaling == Scaling::Tensor)
    for (const auto& scaling : kScalings)
      if (holds(text, scaling.part)) p.scaling = scaling.scaling;
  // Blackwell Ultra's datasheets add half to the rate of 4-bit products, which no library reached: they run as far over those in fp8 as on
  // Blackwell (scripts/distil-products).
  p.peak = row.arithmetic == Arithmetic::Fp4 ? std::min(precision_peak_of(d, "fp4"), 2 * precision_peak_of(d, "fp8"))
                                             : precision_peak_of(d, row.peak);
  p.brain = true;
}

/// Of the 16-bit type that the text names, or else of the quicker one. Where a device says nothing of the one, it is that of the other.
double half_peak_of(const platforms::Device& d, std::string_view text) {
  const double brain = precision_peak_of(d, "bf16"), plain = precision_peak_of(d, "f16");
  const double named = holds(text, "bf16") ? brain : holds(text, "16") ? plain : 0;
  return named > 0 ? named : std::max(brain, plain);
}

}  // namespace

Precision precision_of(const platforms::Device& d, std::string_view text) {
  Precision p;
  p.scalar_peak = precision_peak_of(d, "f32");
  const double half = half_peak_of(d, text);
  p.half_peak = half > 0 ? half : p.scalar_peak;
  p.peak = p.scalar_peak;
  p.autocast = holds(text, "amp") || holds(text, "mixed");
  p.brain = holds(text, "bf16");
  const auto* quantised = narrow_row(text);
  const bool narrow = p.autocast || holds(text, "16") || quantised != nullptr;
  if (quantised != nullptr) quantise(p, *quantised, d, text);
  // Units that are no quicker in 8 bits (Gaudi 3) leave nothing to gain by casting: products run in 16.
  const bool in_16_bits = narrow && half > 0 && (quantised == nullptr || p.peak <= half);
  if (in_16_bits && (d.on_matrix_units("f16") || d.on_matrix_units("bf16"))) {
    p.arithmetic = Arithmetic::Half;
    p.scaling = Scaling::None;
    p.peak = half;
  } else if (quantised == nullptr && holds(text, "tf32") && precision_peak_of(d, "tf32") > 0) {
    p.arithmetic = Arithmetic::Tf32;
    p.peak = precision_peak_of(d, "tf32");
  }
  p.fill_share = p.arithmetic == Arithmetic::F32 ? kScalarFillShare : 1.0;
  p.reuse_share = p.arithmetic == Arithmetic::F32 ? kScalarReuseShare : 1.0;
  p.element_bytes = narrow ? 2 : 4;
  p.matrix_units = p.arithmetic != Arithmetic::F32;
  const auto& kernels = product_kernels(d.generation, p.arithmetic, p.scaling);
  p.fill = kernels.fill * p.fill_share;
  p.grouped_share = kernels.grouped_share;
  p.cast_bytes = kernels.cast_bytes;
  if (p.peak <= 0) throw Refusal("device " + d.name + " has no peak for " + std::string(text));
  return p;
}

std::string_view precision_class(const Precision& p) {
  constexpr std::array<std::string_view, 5> kOfScaling{"fp8", "fp8", "fp8-rowwise", "fp8-block", "mxfp8"};
  switch (p.arithmetic) {
    case Arithmetic::F32:
    case Arithmetic::Tf32:
      return "32-bit";
    case Arithmetic::Half:
      return "16-bit";
    case Arithmetic::Fp8:
      return kOfScaling[static_cast<std::size_t>(p.scaling)];
    case Arithmetic::Fp4:
      return "fp4";
  }
  return {};
}

}  // namespace rehearsal::costmodel
