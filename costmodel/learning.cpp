#include "costmodel/learning.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "costmodel/cost_model.hpp"

namespace rehearsal::costmodel {
namespace {

/// How much evidence the assumption beneath a correction counts as, and how wrong it usually is (standard deviation of the logarithm).
/// Operators of a family differ more than shapes of an operator.
struct Prior {
  double count, error;
};
constexpr Prior kOfFamily{3, 0.3}, kOfOperator{1, 0.15};

/// A kernel that takes more than twenty times what was predicted was disturbed (threads of a product of a microsecond that wait for a
/// core, say): its own sample keeps that, other sizes must not.
constexpr double kLargestLogRatio = 3.0;

/// Geometric mean of two durations; a missing one (zero) leaves the other.
Seconds blend(Seconds a, double weight_a, Seconds b, double weight_b) {
  if (!(a.value() > 0)) return b;
  if (!(b.value() > 0)) return a;
  return Seconds(std::exp((weight_a * std::log(a.value()) + weight_b * std::log(b.value())) / (weight_a + weight_b)));
}

/// log(training / predicted) of one kernel and how much it counts.
struct Ratio {
  double log_ratio = 0, weight = 0;
};

struct Mean {
  double value = 0, variance = 0, count = 0;
};

double middle(std::vector<Ratio> ratios) {
  std::sort(ratios.begin(), ratios.end(), [](const Ratio& a, const Ratio& b) { return a.log_ratio < b.log_ratio; });
  double total = 0, passed = 0;
  for (const auto& r : ratios) total += r.weight;
  for (const auto& r : ratios)
    if ((passed += r.weight) >= total / 2) return r.log_ratio;
  return 0;
}

Mean robust_mean(const std::vector<Ratio>& ratios) {
  const double centre = middle(ratios);
  double weight = 0, weighted = 0, square = 0, weights_square = 0;
  for (const auto& r : ratios) {
    const double x = std::clamp(r.log_ratio, centre - 1.0, centre + 1.0);
    weight += r.weight;
    weighted += r.weight * x;
    square += r.weight * x * x;
    weights_square += r.weight * r.weight;
  }
  if (!(weight > 0)) return {};
  const double mean = weighted / weight;
  return {mean, std::max(0.0, square / weight - mean * mean), weight * weight / weights_square};
}

/// The robust mean drawn towards `centre` while it rests on little.
Correction correction_of(Correction scope, const Mean& mean, double centre, const Prior& prior) {
  const double share = mean.count / (mean.count + prior.count);
  scope.factor = std::exp(centre + share * (mean.value - centre));
  scope.log_error = std::sqrt(share * mean.variance + (1 - share) * prior.error * prior.error);
  scope.observations = static_cast<std::int64_t>(std::lround(mean.count));
  return scope;
}

bool of_kernels(const Correction& c) { return c.scope.starts_with("family:") || c.scope.starts_with("op:"); }

using OfFamily = std::pair<graph::CostFamily, int>;  ///< threads
using OfOp = std::tuple<std::string, graph::CostFamily, int>;
using Ratios = std::map<OfOp, std::vector<Ratio>>;

Ratios ratios_of(const std::vector<Sample>& samples, const CostModel& benchmarks) {
  Ratios ratios;
  for (const auto& s : samples) {
    const double predicted = benchmarks.kernel(s.kernel).seconds.value();
    const double measured = s.wall_median.value();
    if (!s.from_training || !(measured > 0) || !(predicted > 0)) continue;
    const double weight = measured * static_cast<double>(std::max<std::int64_t>(1, s.count));
    const double log_ratio = std::clamp(std::log(measured / predicted), -kLargestLogRatio, kLargestLogRatio);
    ratios[{s.kernel.op, s.kernel.family, s.kernel.threads}].push_back({log_ratio, weight});
  }
  return ratios;
}

/// One vote for every operator. Operators that no benchmark measured tell about themselves only: what was predicted for them came from
/// others of their family, so they count where that holds for all.
std::map<OfFamily, Mean> family_means(const Ratios& ratios, const Calibration& benchmarks) {
  std::set<OfOp> measured_ops;
  std::set<OfFamily> measured_families;
  for (const auto& s : benchmarks.samples) {
    measured_ops.insert({s.kernel.op, s.kernel.family, s.kernel.threads});
    measured_families.insert({s.kernel.family, s.kernel.threads});
  }
  std::map<OfFamily, std::vector<Ratio>> votes;
  for (const auto& [key, of_op] : ratios) {
    const OfFamily family{std::get<1>(key), std::get<2>(key)};
    if (measured_ops.contains(key) || !measured_families.contains(family)) votes[family].push_back({robust_mean(of_op).value, 1.0});
  }
  std::map<OfFamily, Mean> means;
  for (const auto& [family, of_family] : votes) means[family] = robust_mean(of_family);
  return means;
}

Calibration without_training(Calibration c) {
  forget_training(c);
  return c;
}

}  // namespace

bool merge_sample(Calibration& c, const Sample& fresh) {
  const auto at = std::find_if(c.samples.begin(), c.samples.end(),
                               [&](const Sample& s) { return s.from_training && s.kernel.key() == fresh.kernel.key(); });
  if (at == c.samples.end()) {
    c.samples.push_back(fresh);
    return true;
  }
  auto& old = *at;
  const auto fresh_weight = static_cast<double>(std::max<std::int64_t>(1, fresh.count));
  const double old_weight = std::min(static_cast<double>(old.count), fresh_weight);
  const auto mix = [&](Seconds a, Seconds b) { return blend(a, old_weight, b, fresh_weight); };
  const double apart = old.wall_median.value() > 0 && fresh.wall_median.value() > 0 ? std::log(fresh.wall_median / old.wall_median) : 0;
  const double share = old_weight / (old_weight + fresh_weight);
  old.spread = std::sqrt(share * old.spread * old.spread + (1 - share) * fresh.spread * fresh.spread + share * (1 - share) * apart * apart);
  old.cpu_min = mix(old.cpu_min, fresh.cpu_min);
  old.cpu_quartile = mix(old.cpu_quartile, fresh.cpu_quartile);
  old.cpu_median = mix(old.cpu_median, fresh.cpu_median);
  old.wall_min = mix(old.wall_min, fresh.wall_min);
  old.wall_median = mix(old.wall_median, fresh.wall_median);
  old.count += fresh.count;
  return false;
}

void forget_training(Calibration& c) {
  std::erase_if(c.samples, [](const Sample& s) { return s.from_training; });
  c.corrections.clear();
  fit(c);
}

void learn_kernel_corrections(Calibration& c, const platforms::Device& device, const std::string& peak_key) {
  const auto alone = without_training(c);
  const CostModel benchmarks(device, alone, peak_key);
  const auto ratios = ratios_of(c.samples, benchmarks);
  c.corrections.erase(std::remove_if(c.corrections.begin(), c.corrections.end(), of_kernels), c.corrections.end());
  std::map<OfFamily, double> centres;
  for (const auto& [key, mean] : family_means(ratios, alone)) {
    c.corrections.push_back(correction_of({"family:" + std::string(family_name(key.first)), key.second}, mean, 0.0, kOfFamily));
    centres[key] = std::log(c.corrections.back().factor);
  }
  for (const auto& [key, of_op] : ratios) {
    const auto& [op, family, threads] = key;
    c.corrections.push_back(correction_of({"op:" + op, threads}, robust_mean(of_op), centres[{family, threads}], kOfOperator));
  }
  fit(c);
}

void merge_factor(Calibration& c, const std::string& scope, const FactorObservation& seen, double prior_error) {
  if (seen.count <= 0) return;
  auto at =
      std::find_if(c.corrections.begin(), c.corrections.end(), [&](const Correction& k) { return k.scope == scope && k.threads == 0; });
  if (at == c.corrections.end()) at = c.corrections.insert(c.corrections.end(), {scope, 0, 1.0, prior_error, 0});
  const auto old_count = static_cast<double>(at->observations), fresh_count = static_cast<double>(seen.count);
  double mean = seen.log_factor, variance = seen.variance;
  const double count = old_count + fresh_count;
  if (old_count > 0) {
    const double old_mean = std::log(at->factor) * (old_count + kPriorSteps) / old_count;
    const double old_variance =
        std::max(0.0, (at->log_error * at->log_error * (old_count + kPriorSteps) - kPriorSteps * prior_error * prior_error) / old_count);
    const double apart = seen.log_factor - old_mean;
    mean = (old_count * old_mean + fresh_count * seen.log_factor) / count;
    variance = (old_count * old_variance + fresh_count * seen.variance) / count + old_count * fresh_count / (count * count) * apart * apart;
  }
  at->factor = std::exp(mean * count / (count + kPriorSteps));
  at->log_error = std::sqrt((count * variance + kPriorSteps * prior_error * prior_error) / (count + kPriorSteps));
  at->observations = seen.count + at->observations;
}

}  // namespace rehearsal::costmodel
