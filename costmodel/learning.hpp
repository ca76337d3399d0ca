#pragma once
// From samples that were taken in training to corrections of operator families and kinds, which carry over to shapes and models
// that were not seen; and how corrections of mechanisms merge as traces come in.

#include <cstdint>
#include <string>

#include "costmodel/calibration.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::costmodel {

/// Adds a sample from training, or merges it with the one of the same kernel (implementation, type and threads included): the
/// geometric mean weighted by repetitions, the older one's counting no more than the newer one's, so that a machine that changed is
/// followed. Returns true when the kernel was not known from training.
bool merge_sample(Calibration&, const Sample&);

/// Recomputes the corrections "family:…" and "op:…" from the samples, then the fits. A factor says how much longer kernels take in
/// training than micro-benchmarks of this machine (or, without any, the datasheet) say. Of an operator: mean of
/// log(training / predicted without any training sample) over its kernels, weighted by the time that they were seen to take, outliers
/// beyond a factor e of the median clipped; with n kernels (effective number, (sum of weights)² / sum of squares) shrunk by n / (n + 1)
/// towards its family's. Of a family: the same mean over its operators, each counting once, shrunk by n / (n + 3) towards 1.
/// The result depends on the samples alone, not on the order in which they were learned.
void learn_kernel_corrections(Calibration&, const platforms::Device&, const std::string& peak_key);

/// Takes back what training taught, samples and corrections, and fits again to what benchmarks measured.
void forget_training(Calibration&);

/// An observation of a mechanism: how long something took against what was predicted without the mechanism's correction.
struct FactorObservation {
  double log_factor = 0;   ///< mean of log(measured / predicted)
  double variance = 0;     ///< of it between repetitions
  std::int64_t count = 0;  ///< repetitions (steps)
};

/// Merges an observation into the correction `scope` (threads 0). The stored factor is exp(m · n / (n + kPriorSteps)), its error
/// sqrt((n · v + kPriorSteps · prior²) / (n + kPriorSteps)), m and v being mean and variance over all n repetitions so far; both can be
/// recovered, so that the order of merging does not matter.
void merge_factor(Calibration&, const std::string& scope, const FactorObservation&, double prior_error);
inline constexpr double kPriorSteps = 4;

}  // namespace rehearsal::costmodel
