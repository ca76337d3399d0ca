#pragma once
// What a kernel, a message, a joule costs: exact sample, else fitted, else roofline from the datasheet.

#include <memory>
#include <string>

#include "costmodel/calibration.hpp"
#include "costmodel/estimate.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::costmodel {

/// How a job is run on a kind of device: costmodel/profiles/*.json. Not constants per record: what a framework does.
struct ExecutionProfile {
  std::string name = "rehearse";
  std::string description;
  bool fused_elementwise = false;  ///< element-wise chains are folded into their producers
  Seconds launch_gap;              ///< device idle between two kernels; zero: from the device
  double overlap = 0.9;            ///< share of communication that can hide behind computation
  double bucket_bytes = 25e6;      ///< gradient bucket
  bool host_progressed = false;    ///< messages are moved by the computing cores themselves
  double allocator_factor = 1.0;   ///< device memory ÷ bytes asked for
  Bytes allocator_fixed;
};
[[nodiscard]] const ExecutionProfile& profile(const std::string& name);  ///< Throws BadInput listing the known ones.

class CostModel {
 public:
  /// `calibration` may be empty: everything then rests on the datasheet.
  CostModel(platforms::Device device, Calibration calibration, ExecutionProfile profile, std::string peak_key);

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
  [[nodiscard]] const ExecutionProfile& profile() const { return profile_; }

 private:
  [[nodiscard]] Estimate exact(const Sample&) const;
  [[nodiscard]] Estimate fitted(const KernelCase&, const FamilyFit&) const;
  [[nodiscard]] Estimate roofline(const KernelCase&) const;
  /// Of products of this type: those that stay in f32 in a run of 16 bits have the peak of f32.
  [[nodiscard]] FlopsPerSecond peak_of(DType) const;
  [[nodiscard]] Estimate corrected(const KernelCase&, Estimate) const;
  [[nodiscard]] const Correction* correction(const std::string& scope, int threads) const;

  platforms::Device device_;
  std::shared_ptr<const Calibration> calibration_;  ///< the index points into it
  ExecutionProfile profile_;
  std::string peak_key_;  ///< which peak applies: "f32", "tf32", "f16", "bf16", "fp8"
  struct Index;
  std::shared_ptr<const Index> index_;
};

}  // namespace rehearsal::costmodel
