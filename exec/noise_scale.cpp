#include "exec/noise_scale.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "plan/schedules/schedule.hpp"
#include "plan/sharding/sharding.hpp"

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

void refuse_noise_scale(const std::string& what, const std::string& remedy) { throw Refusal("--noise-scale: " + what + "; " + remedy); }

void require_plan_with_parts(const plan::Program& program) {
  const auto& p = program.plan;
  if (p.cp > 1)
    refuse_noise_scale("cp=" + std::to_string(p.cp) + " divides every sample among ranks, whose gradients are of no samples of their own",
                       "use cp=1");
  if (p.ep > 1)
    refuse_noise_scale("ep=" + std::to_string(p.ep) + " gives the gradients of experts other parts than those of other weights",
                       "use ep=1");
  if (p.spatial != decltype(p.spatial){1, 1, 1})
    refuse_noise_scale("spatial divides every sample among ranks, whose gradients are of no samples of their own", "leave it out");
  if (p.pp > 1 && plan::schedule(p.schedule).asynchronous)
    refuse_noise_scale("with schedule=" + p.schedule + " the gradients of a step are of several versions of the weights",
                       "use a schedule with a flush");
  if (parts_of(program).parts < 2)
    refuse_noise_scale("the batch has one part, and the noise is seen in how parts differ",
                       "give dp=2 or more, or a micro_batch below the batch");
}

/// On every axis that divides samples, what is squared part by part must be a sum that is not added up yet.
void require_gradients_in_parts(const plan::Sharding& sharding, const graph::Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (!graph::schema(node).sees_parts) continue;
    const graph::TensorId gradient = node.inputs[0];
    for (std::size_t a = 0; a < sharding.axes.size(); ++a) {
      const auto& axis = sharding.axes[a];
      const bool has_samples = axis.in_time || std::ranges::find(axis.dims, "batch") != axis.dims.end();
      if (!has_samples || axis.size == 1 || sharding.layout(gradient)[a].partial()) continue;
      refuse_noise_scale("'" + graph[gradient].name + "' comes from several uses of its weight, and is added up over " +
                             (axis.in_time ? "micro-batches" : axis.name) + " use by use",
                         "let a replica's samples be one micro-batch");
    }
  }
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

void require_parts(const plan::Program& program, const graph::TrainingGraph& training) {
  require_plan_with_parts(program);
  require_gradients_in_parts(*program.sharding, training.graph);
}

void SampleNorms::add(std::int64_t step, const std::vector<SampleNorm>& norms) {
  for (const auto& n : norms) {
    least = count == 0 ? n.norm : std::min(least, n.norm);
    if (count == 0 || n.norm > largest.norm) largest = n, largest_in = step;
    sum += n.norm;
    ++count;
  }
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

void NoiseScale::add_norms(std::int64_t step, const std::vector<SampleNorm>& norms) {
  if (!samples_) samples_.emplace();
  samples_->add(step, norms);
}

std::optional<double> NoiseResult::sample_norm() const {
  const double mean_square = square + variance;
  return mean_square > 0 ? std::optional(std::sqrt(mean_square)) : std::nullopt;
}

NoiseResult NoiseScale::result() const {
  NoiseResult result{parts_, static_cast<std::int64_t>(steps_.size()), 0, 0};
  result.samples = samples_;
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
