#include "costmodel/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "costmodel/accelerator.hpp"
#include "costmodel/alignment.hpp"

namespace rehearsal::costmodel {
namespace {

/// What the accelerator model takes for the rate of a family's kernels, what they share their error with, and how large it is where none
/// was measured (standard deviation of the logarithm).
struct FamilyRow {
  graph::CostFamily family;
  RateKind rate;
  Mechanism mechanism;
  double log_error;
};
constexpr FamilyRow kFamilies[] = {
    {graph::CostFamily::Convolution, RateKind::Convolution, Mechanism::ConvolutionRate, 0.3},
    {graph::CostFamily::MatMul, RateKind::Matmul, Mechanism::MatrixRate, 0.25},
    {graph::CostFamily::Normalization, RateKind::Elementwise, Mechanism::MemoryRate, 0.3},
    {graph::CostFamily::Pooling, RateKind::Elementwise, Mechanism::MemoryRate, 0.3},
    {graph::CostFamily::Elementwise, RateKind::Elementwise, Mechanism::MemoryRate, 0.25},
    {graph::CostFamily::Reduction, RateKind::Elementwise, Mechanism::MemoryRate, 0.3},
    {graph::CostFamily::Movement, RateKind::Elementwise, Mechanism::MemoryRate, 0.3},
    {graph::CostFamily::Gather, RateKind::Elementwise, Mechanism::MemoryRate, 0.4},
    {graph::CostFamily::View, RateKind::Elementwise, Mechanism::Launch, 0.1},
    {graph::CostFamily::Optimizer, RateKind::Elementwise, Mechanism::MemoryRate, 0.2},
    {graph::CostFamily::Decomposition, RateKind::Decomposition, Mechanism::MatrixRate, 0.5},
};
static_assert(std::size(kFamilies) == static_cast<std::size_t>(graph::CostFamily::Count));

const FamilyRow& row_of(graph::CostFamily family) { return *std::ranges::find(kFamilies, family, &FamilyRow::family); }

/// Rates of a device for products of one type. Types that the accelerator model has no kernels for (f64, 16 bits on processors) have those
/// of f32 in proportion to the peaks.
RateTable rates_for(const platforms::Device& device, const std::string& peak_key) {
  const bool processor = device.kind == platforms::DeviceKind::Cpu;
  const auto peak = device.peak(peak_key), f32 = device.peak("f32");
  const bool in_proportion = f32 && (peak_key == "f64" || processor || !peak);
  const auto precision = precision_of(device, in_proportion ? "f32" : peak_key);
  auto rates = rates_of(device, precision, {own_framework(), own_framework().launch}, published_constants().values);
  if (in_proportion && peak)
    for (auto& rate : rates.flops_per_second) rate *= *peak / *f32;
  if (processor) rates.gap = device.launch_overhead.value.value();
  return rates;
}

std::string key_of(const KernelCase& k) {
  return k.op + '\n' + k.implementation + '\n' + k.signature + '\n' + std::string(name(k.dtype)) + '\n' + std::to_string(k.threads);
}

std::string key_of(std::string_view op, std::string_view implementation, graph::CostFamily family, DType dtype, int threads) {
  return std::string(op) + '\n' + std::string(implementation) + '\n' + std::to_string(static_cast<int>(family)) + '\n' +
         std::string(name(dtype)) + '\n' + std::to_string(threads);
}

std::string key_of(const KernelCase& k, std::string_view implementation) {
  auto other = k;
  other.implementation = implementation;
  return key_of(other);
}

/// nullptr: nothing. Most devices are known by their datasheets alone: where there is nothing, no key is made.
template <class Map, class Key>
typename Map::mapped_type found(const Map& map, const Key& key) {
  if (map.empty()) return nullptr;
  const auto at = map.find(key());
  return at == map.end() ? nullptr : at->second;
}

}  // namespace

struct CostModel::Index {
  std::unordered_map<std::string, const Sample*> samples;
  std::unordered_map<std::string, const FamilyFit*> fits;
  std::unordered_map<std::string, const Correction*> corrections;
};

CostModel::CostModel(platforms::Device device, Calibration calibration, std::string peak_key)
    : device_(std::move(device)),
      calibration_(std::make_shared<const Calibration>(std::move(calibration))),
      peak_key_(std::move(peak_key)) {
  auto index = std::make_shared<Index>();
  for (const auto& s : calibration_->samples) {
    for (const auto& key : {key_of(s.kernel), key_of(s.kernel, any_kernel(s.kernel.implementation))}) {
      auto& known = index->samples[key];
      if (known == nullptr || s.from_training) known = &s;
    }
  }
  for (const auto& f : calibration_->fits) index->fits[key_of(f.op, f.implementation, f.family, f.dtype, f.threads)] = &f;
  for (const auto& c : calibration_->corrections) index->corrections[c.scope + '@' + std::to_string(c.threads)] = &c;
  index_ = std::move(index);
  // No published run is of a processor; what its datasheet is worth is said by the families' own errors.
  if (device_.kind != platforms::DeviceKind::Cpu) widening_ = published_constants().evidence.widening_of(device_);
  if (device_.peak("f32") || device_.peak(peak_key_)) rates_ = wide_ = rates_for(device_, peak_key_);
  if (device_.peak("f32")) wide_ = rates_for(device_, "f32");
}

std::string_view CostModel::measured_as(const KernelCase& k) const {
  if (k.implementation != kAnyImplementation) return k.implementation;
  const bool is_product = k.family == graph::CostFamily::Convolution || k.family == graph::CostFamily::MatMul;
  return is_product && peak_key_ == "tf32" ? kRoundingKernels : "";
}

Estimate CostModel::kernel(const KernelCase& asked) const {
  auto k = asked;
  k.implementation = measured_as(asked);
  // Versions of a library differ by less than kernels of one operator do.
  if (names_version(k.implementation) && !was_measured(k)) k.implementation = without_version(k.implementation);
  if (const auto* sample = found(index_->samples, [&] { return key_of(k); }))
    return sample->from_training ? exact(*sample) : corrected(k, exact(*sample));
  const auto* fit = found(index_->fits, [&] { return key_of(k.op, k.implementation, k.family, k.dtype, k.threads); });
  if (fit == nullptr) fit = found(index_->fits, [&] { return key_of("", any_kernel(k.implementation), k.family, k.dtype, k.threads); });
  return corrected(k, fit != nullptr ? fitted(k, *fit) : by_datasheet(k));
}

bool CostModel::was_measured(const KernelCase& k) const {
  return index_->samples.contains(key_of(k)) || index_->fits.contains(key_of(k.op, k.implementation, k.family, k.dtype, k.threads));
}

Estimate CostModel::exact(const Sample& s) const {
  const bool wall = s.from_training || s.kernel.threads > 1;
  const auto seconds = wall ? s.wall_median : s.cpu_median;
  // The median of n runs is surer than one run, but what all runs share (clock, neighbours) is not averaged away.
  const double log_error = std::max(0.02, s.spread / std::sqrt(std::max<double>(1.0, std::min<double>(static_cast<double>(s.count), 4.0))));
  return {seconds, row_of(s.kernel.family).mechanism, log_error, Evidence::Exact};
}

double CostModel::share(const KernelCase& k) const { return device_.kind == platforms::DeviceKind::Gpu ? share_by_alignment(k) : 1; }

Estimate CostModel::fitted(const KernelCase& k, const FamilyFit& f) const {
  double seconds = f.overhead.value();
  if (f.flop_rate.value() > 0) seconds += (k.work.flops / f.flop_rate).value() / share(k);
  if (f.byte_rate.value() > 0) seconds += (k.work.bytes / f.byte_rate).value();
  return {Seconds(seconds), row_of(k.family).mechanism, f.log_error, Evidence::Fitted};
}

const RateTable& CostModel::rates(DType dtype) const {
  const bool narrow = peak_key_ == "f16" || peak_key_ == "bf16" || peak_key_ == "fp8" || peak_key_ == "fp4";
  return narrow && dtype == DType::F32 ? wide_ : rates_;
}

Estimate CostModel::by_datasheet(const KernelCase& k) const {
  const auto& row = row_of(k.family);
  const auto& rates = this->rates(k.dtype);
  const auto kind = static_cast<std::size_t>(row.rate);
  // A processor's peak is that of all its cores (calibrate: of one); a rank may have some of them, or several processors.
  const bool processor = device_.kind == platforms::DeviceKind::Cpu;
  const bool alone = row.rate == RateKind::Decomposition;
  const double lanes = processor && !alone ? static_cast<double>(std::max(1, k.threads)) / device_.compute_units : 1;
  const bool matrix = row.rate == RateKind::Convolution || row.rate == RateKind::Matmul;
  const double reached = (matrix ? share(k) : 1) * (k.implementation.ends_with(kTiledKernels) ? kTiledSaving : 1);
  const double flop_time = matrix || alone ? k.work.flops.value() / (rates.flops_per_second[kind] * lanes) / reached : 0;
  const double byte_time = k.work.bytes.value() / rates.bytes_per_second[kind];
  const double busy = std::max(flop_time, byte_time);
  const bool launch_bound = rates.gap > busy;
  return {Seconds(busy + rates.gap),
          launch_bound            ? Mechanism::Launch
          : flop_time > byte_time ? row.mechanism
                                  : Mechanism::MemoryRate,
          (launch_bound ? 0.5 : row.log_error) * widening_, Evidence::Datasheet};
}

Estimate CostModel::corrected(const KernelCase& k, Estimate estimate) const {
  if (index_->corrections.empty()) return estimate;
  const auto* c = correction("op:" + k.op, k.threads);
  if (c == nullptr) c = correction("family:" + std::string(family_name(k.family)), k.threads);
  if (c == nullptr) return estimate;
  estimate.seconds *= c->factor;
  // Micro-benchmarks of this shape are surer than the correction; a fit is as sure as training showed it to be.
  if (estimate.evidence == Evidence::Exact)
    estimate.log_error = std::hypot(estimate.log_error, c->log_error);
  else
    estimate.log_error = std::max(0.03, std::min(estimate.log_error, c->log_error));
  return estimate;
}

const Correction* CostModel::correction(const std::string& scope, int threads) const {
  for (int t : {threads, 0})
    if (const auto at = index_->corrections.find(scope + '@' + std::to_string(t)); at != index_->corrections.end()) return at->second;
  return nullptr;
}

Estimate CostModel::host_copy(Bytes size) const {
  if (device_.host_bandwidth)
    return {size / device_.host_bandwidth->value, Mechanism::LinkBandwidth, link_log_error(), Evidence::Datasheet};
  return {2 * size / device_.memory_bandwidth.value, Mechanism::MemoryRate, link_log_error(), Evidence::Datasheet};
}

double CostModel::link_log_error() const {
  if (const auto* c = correction("communication", 0)) return c->log_error;
  return calibration_->link_samples.empty() ? 0.3 : calibration_->link.log_error;
}

Evidence CostModel::link_evidence() const { return calibration_->link_samples.empty() ? Evidence::Datasheet : Evidence::Fitted; }

double CostModel::communication_factor() const {
  const auto* c = correction("communication", 0);
  return c == nullptr ? 1.0 : c->factor;
}

double CostModel::composition_factor() const {
  const auto* c = correction("step", 0);
  return c == nullptr ? 1.0 : c->factor;
}

double CostModel::composition_log_error() const {
  const auto* c = correction("step", 0);
  return c == nullptr ? (calibration_->empty() ? 0.1 : 0.15) : c->log_error;
}

BytesPerSecond CostModel::reduction_rate() const {
  if (calibration_->link.reduction.value() > 0) return calibration_->link.reduction;
  return device_.memory_bandwidth.value / 3.0;  // two reads and a write
}

}  // namespace rehearsal::costmodel
