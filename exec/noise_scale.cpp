#include "exec/noise_scale.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.hpp"
#include "plan/schedules/schedule.hpp"

namespace rehearsal::exec {
namespace {

constexpr double kKept = 0.95;                // of what smoothed squares were a step before
constexpr double kDeviationsOfRange = 1.645;  // 90 % of a normal distribution
constexpr std::size_t kFewestSteps = 4;

struct Moments {
  double square = 0, variance = 0;                             ///< means
  double square_square = 0, variance_square = 0, product = 0;  ///< covariances of one step
};

Moments moments_of(const std::vector<GradientNoise>& steps) {
  Moments m;
  const auto count = static_cast<double>(steps.size());
  for (const auto& s : steps) m.square += s.square / count, m.variance += s.variance / count;
  for (const auto& s : steps) {
    const double a = s.square - m.square, b = s.variance - m.variance;
    m.square_square += a * a / (count - 1);
    m.variance_square += b * b / (count - 1);
    m.product += a * b / (count - 1);
  }
  return m;
}

/// Of a ratio of two means of `count` steps, relative (delta method).
double deviation_of_ratio(const Moments& m, double count) {
  const double relative =
      m.square_square / (m.square * m.square) + m.variance_square / (m.variance * m.variance) - 2 * m.product / (m.square * m.variance);
  return std::sqrt(std::max(0.0, relative) / count);
}

}  // namespace

PartsOfBatch parts_of(const plan::Program& program) {
  std::set<std::int64_t> seen;
  PartsOfBatch parts{static_cast<double>(program.batch), 0, 0};
  for (int rank = 0; rank < program.ranks; ++rank)
    for (int m = 0; m < plan::micro_batches_of(program, rank); ++m) {
      const auto range = plan::samples(program, rank, m);
      if (range.count == 0 || !seen.insert(range.first).second) continue;
      const double share = static_cast<double>(range.count) / parts.batch;
      parts.square_share += share * share;
      ++parts.parts;
    }
  return parts;
}

void require_parts(const plan::Program& program) {
  const auto& p = program.plan;
  const auto refuse = [](const std::string& what, const std::string& remedy) { throw Refusal("--noise-scale: " + what + "; " + remedy); };
  if (p.cp > 1)
    refuse("cp=" + std::to_string(p.cp) + " divides every sample among ranks, whose gradients are of no samples of their own", "use cp=1");
  if (p.ep > 1)
    refuse("ep=" + std::to_string(p.ep) + " gives the gradients of experts other parts than those of other weights", "use ep=1");
  if (p.spatial != decltype(p.spatial){1, 1, 1})
    refuse("spatial divides every sample among ranks, whose gradients are of no samples of their own", "leave it out");
  const auto& schedule = plan::schedule(p.schedule);
  if (p.pp > 1 && schedule.asynchronous)
    refuse("with schedule=" + p.schedule + " the gradients of a step are of several versions of the weights",
           "use a schedule with a flush");
  if (parts_of(program).parts < 2)
    refuse("the batch has one part, and the noise is seen in how parts differ", "give dp=2 or more, or a micro_batch below the batch");
}

GradientNoise noise_of(const PartsOfBatch& parts, const GradientSquares& squares) {
  const double q = parts.square_share;
  return {(squares.whole - squares.parts) / (1 - q), parts.batch * (squares.parts - q * squares.whole) / (1 - q), {}};
}

GradientNoise NoiseScale::add(const GradientSquares& squares) {
  auto noise = noise_of(parts_, squares);
  // Both begin at 0, so that their ratio needs no correction.
  smooth_square_ = kKept * smooth_square_ + (1 - kKept) * noise.square;
  smooth_variance_ = kKept * smooth_variance_ + (1 - kKept) * noise.variance;
  if (smooth_square_ > 0) noise.scale = std::max(0.0, smooth_variance_) / smooth_square_;
  steps_.push_back(noise);
  return noise;
}

NoiseResult NoiseScale::result() const {
  NoiseResult result{parts_, static_cast<std::int64_t>(steps_.size()), 0, 0};
  if (steps_.empty()) return result;
  const auto m = moments_of(steps_);
  result.square = m.square;
  result.variance = m.variance;
  if (!(m.square > 0) || !(m.variance > 0)) return result;
  result.scale = m.variance / m.square;
  if (steps_.size() < kFewestSteps) return result;
  const double width = kDeviationsOfRange * deviation_of_ratio(m, static_cast<double>(steps_.size()));
  result.low = std::max(0.0, *result.scale * (1 - width));
  result.high = *result.scale * (1 + width);
  return result;
}

}  // namespace rehearsal::exec
