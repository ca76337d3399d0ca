#pragma once
// The gradient noise scale of a training while it runs (McCandlish et al., "An Empirical Model of Large-Batch Training", 2018): gradients
// of parts of a batch are noisier than its own, and from both follow the square of the true gradient and the variance of one sample's.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/training.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::exec {

/// Into what a plan divides the samples of a step.
struct PartsOfBatch {
  double batch = 1;         ///< samples
  double square_share = 1;  ///< sum over the parts of (samples of the part / batch)^2
  std::int64_t parts = 1;
};
[[nodiscard]] PartsOfBatch parts_of(const plan::Program&);
/// Throws Refusal naming the key of the plan under which gradients of parts are none of samples of their own, or there is one part; or a
/// weight whose gradient is added up over parts of the batch before it is whole, so that no part of it is seen. Reads the layouts of the
/// sharding, which plan::strip() leaves out.
void require_parts(const plan::Program&, const graph::TrainingGraph&);

/// Norms of the gradients of single samples' losses, seen where every part of a batch is one sample.
struct SampleNorm {
  double norm = 0;
  std::string sample;  ///< what the data calls it: "row 17 of train.npz"
};
struct SampleNorms {
  std::int64_t count = 0;
  double sum = 0, least = 0;
  SampleNorm largest;
  std::int64_t largest_in = 0;  ///< step, 1 for the first of a training

  [[nodiscard]] double mean() const { return sum / static_cast<double>(count); }
  void add(std::int64_t step, const std::vector<SampleNorm>&);
};

/// What the sums of a step are made of: |G|^2 of the batch's gradient, and sum of |g|^2 over the parts', all of the mean loss of the batch.
struct GradientSquares {
  double parts = 0, whole = 0;
};

/// Of one step: unbiased, and so may be below 0.
struct GradientNoise {
  double square = 0;                 ///< of the true gradient's norm
  double variance = 0;               ///< of the gradient of one sample, summed over its elements
  std::optional<double> scale = {};  ///< samples: variance / square, both smoothed over steps; none while the square is not above 0
};

/// With part p of b_p samples of B, q = sum (b_p / B)^2: E parts = q square + variance / B, E whole = square + variance / B. Equal parts
/// give McCandlish's equations A.2 and A.3.
[[nodiscard]] GradientNoise noise_of(const PartsOfBatch&, const GradientSquares&);

struct NoiseResult {
  PartsOfBatch of;
  std::int64_t steps = 0;
  double square = 0, variance = 0;  ///< means over the steps
  /// Samples: variance / square. None where the square is not above 0: more steps or larger batches show it.
  std::optional<double> scale = {};
  /// 90 % interval from how much steps differ; none below four steps. The low end is 0 at least.
  std::optional<double> low = {}, high = {};

  std::optional<SampleNorms> samples = {};  ///< where every part is one

  /// Root mean square of the norms of single samples' gradients, of which square and variance are the sum. None while that is not above 0.
  [[nodiscard]] std::optional<double> sample_norm() const;
};

class NoiseScale {
 public:
  explicit NoiseScale(const PartsOfBatch& parts) : parts_(parts) {}
  GradientNoise add(const GradientSquares&);
  void add_norms(std::int64_t step, const std::vector<SampleNorm>&);
  [[nodiscard]] NoiseResult result() const;
  /// Is every part of the batch one sample?
  [[nodiscard]] bool sees_samples() const { return static_cast<double>(parts_.parts) == parts_.batch; }

 private:
  PartsOfBatch parts_;
  std::vector<GradientNoise> steps_;
  std::optional<SampleNorms> samples_;
  double smooth_square_ = 0, smooth_variance_ = 0;
};

}  // namespace rehearsal::exec
