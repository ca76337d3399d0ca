#pragma once
// What a kernel or a message takes: exact sample, else fitted, else the accelerator model.

#include <memory>
#include <string>

#include "costmodel/calibration.hpp"
#include "costmodel/interval.hpp"
#include "costmodel/kernel_rows.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::costmodel {

/// Messages are moved by the computing cores themselves, not beside them.
[[nodiscard]] inline bool host_progressed(const platforms::Device& device) { return device.kind == platforms::DeviceKind::Cpu; }

/// Of our own execution on one device.
class CostModel {
 public:
  /// `calibration` may be empty: everything then rests on the datasheet.
  CostModel(platforms::Device device, Calibration calibration, std::string peak_key);

  [[nodiscard]] Estimate kernel(const KernelCase&) const;
  /// Of so many bytes to or from the host's memory; a copy within memory where the device's memory is the host's.
  [[nodiscard]] Estimate host_copy(Bytes) const;
  /// Relative error of a link's latency and bandwidth.
  [[nodiscard]] double link_log_error() const;
  [[nodiscard]] Evidence link_evidence() const;
  /// Factor on simulated or closed-form communication time learned from traces.
  [[nodiscard]] double communication_factor() const;
  /// What the sum of kernels and messages leaves out of a step, as a factor on it (1: nothing), and its error.
  [[nodiscard]] double composition_factor() const;
  [[nodiscard]] double composition_log_error() const;
  [[nodiscard]] BytesPerSecond reduction_rate() const;
  [[nodiscard]] bool host_progressed() const { return costmodel::host_progressed(device_); }

 private:
  /// Under which name of a kernel there are measurements, if any.
  [[nodiscard]] std::string_view measured_as(const KernelCase&) const;
  /// By its own name, alone or among others of its operator.
  [[nodiscard]] bool was_measured(const KernelCase&) const;
  [[nodiscard]] Estimate exact(const Sample&) const;
  [[nodiscard]] Estimate fitted(const KernelCase&, const FamilyFit&) const;
  /// By the accelerator model: the longer of operations and bytes at the rates that kernels reach, and the gap between kernels.
  [[nodiscard]] Estimate by_datasheet(const KernelCase&) const;
  /// Of products of this type: those that stay in f32 in a run of 16 bits have the rates of f32.
  [[nodiscard]] const RateTable& rates(DType) const;
  /// Of the rate of its like that a kernel reaches on this device.
  [[nodiscard]] double share(const KernelCase&) const;
  [[nodiscard]] Estimate corrected(const KernelCase&, Estimate) const;
  [[nodiscard]] const Correction* correction(const std::string& scope, int threads) const;

  platforms::Device device_;
  std::shared_ptr<const Calibration> calibration_;  ///< the index points into it
  std::string peak_key_;                            ///< which peak applies: "f32", "tf32", "f16", "bf16", "fp8"
  double widening_ = 1;                             ///< of what the datasheet says
  RateTable rates_, wide_;                          ///< of peak_key_ and of f32
  struct Index;
  std::shared_ptr<const Index> index_;
};

}  // namespace rehearsal::costmodel
