// Fits t = flops / F + bytes / B + c to measured kernels, with F, B, c >= 0, by least squares of relative errors (each sample counts the
// same, however long it takes), reweighted so that outliers count less.

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <Eigen/Dense>

#include "costmodel/alignment.hpp"
#include "costmodel/calibration.hpp"

namespace rehearsal::costmodel {
namespace {

struct FitPoint {
  double flops, bytes, seconds, weight;
};

using Coefficients = Eigen::Vector3d;  // 1/F, 1/B, c

Eigen::Vector3d features(const FitPoint& p) { return {p.flops / p.seconds, p.bytes / p.seconds, 1.0 / p.seconds}; }

/// Least squares over the terms of `mask`; the others are zero. Nothing when a term would be negative.
bool solve_subset(const std::vector<FitPoint>& points, const std::vector<double>& weights, unsigned mask, Coefficients& out) {
  std::vector<int> terms;
  for (int k = 0; k < 3; ++k)
    if ((mask >> k & 1U) != 0) terms.push_back(k);
  const auto n = static_cast<Eigen::Index>(points.size());
  Eigen::MatrixXd a(n, static_cast<Eigen::Index>(terms.size()));
  Eigen::VectorXd b(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const auto f = features(points[static_cast<std::size_t>(i)]);
    const double w = std::sqrt(weights[static_cast<std::size_t>(i)]);
    for (Eigen::Index k = 0; k < a.cols(); ++k) a(i, k) = w * f[terms[static_cast<std::size_t>(k)]];
    b(i) = w;
  }
  // Columns differ by many orders of magnitude: scaled before solving.
  Eigen::VectorXd scale = a.colwise().norm();
  for (auto& s : scale)
    if (s <= 0) return false;
  const Eigen::VectorXd x = (a * scale.cwiseInverse().asDiagonal()).colPivHouseholderQr().solve(b).cwiseQuotient(scale);
  out.setZero();
  for (Eigen::Index k = 0; k < x.size(); ++k) {
    if (!(x[k] >= 0)) return false;
    out[terms[static_cast<std::size_t>(k)]] = x[k];
  }
  return true;
}

double predict(const Coefficients& c, const FitPoint& p) { return c[0] * p.flops + c[1] * p.bytes + c[2]; }

double loss(const std::vector<FitPoint>& points, const std::vector<double>& weights, const Coefficients& c) {
  double sum = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double r = predict(c, points[i]) / points[i].seconds - 1;
    sum += weights[i] * r * r;
  }
  return sum;
}

/// Non-negative least squares by trying all subsets of the three terms.
Coefficients solve(const std::vector<FitPoint>& points, const std::vector<double>& weights) {
  Coefficients best = Coefficients::Zero();
  double least = HUGE_VAL;
  for (unsigned mask = 1; mask < 8; ++mask) {
    Coefficients c;
    if (!solve_subset(points, weights, mask, c)) continue;
    const double l = loss(points, weights, c);
    if (l < least) least = l, best = c;
  }
  return best;
}

FamilyFit fit_points(const std::vector<FitPoint>& points) {
  std::vector<double> weights;
  for (const auto& p : points) weights.push_back(p.weight);
  Coefficients c = solve(points, weights);
  for (int round = 0; round < 8; ++round) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double r = std::fabs(std::log(std::max(predict(c, points[i]), 1e-12) / points[i].seconds));
      weights[i] = points[i].weight / std::max(1.0, r / 0.15);  // Huber: beyond 15 % an outlier counts linearly
    }
    c = solve(points, weights);
  }
  FamilyFit fit;
  fit.flop_rate = FlopsPerSecond(c[0] > 0 ? 1 / c[0] : 0);
  fit.byte_rate = BytesPerSecond(c[1] > 0 ? 1 / c[1] : 0);
  fit.overhead = Seconds(c[2]);
  fit.samples = static_cast<std::int64_t>(points.size());
  double square = 0, total = 0;
  for (const auto& p : points) {
    const double r = std::log(std::max(predict(c, p), 1e-12) / p.seconds);
    square += p.weight * std::min(r * r, 1.0);
    total += p.weight;
  }
  // Three terms were fitted: the residual of few points is too kind.
  const double freedom = std::max(1.0, static_cast<double>(points.size()) - 3.0) / static_cast<double>(points.size());
  fit.log_error = std::max(0.03, std::sqrt(square / total / freedom));
  return fit;
}

using Group = std::tuple<std::string, std::string, graph::CostFamily, DType, int>;  // op, implementation, family, dtype, threads

/// The time that a sample stands for at the level of micro-benchmarks: of the wall clock where training or several threads were
/// measured, of the thread alone otherwise, which others may interrupt.
double seconds_of(const Calibration& c, const Sample& s) {
  if (!s.from_training) return s.kernel.threads > 1 ? s.wall_median.value() : s.cpu_median.value();
  const auto* correction = correction_for(c, s.kernel);
  return s.wall_median.value() / (correction == nullptr ? 1.0 : correction->factor);
}

/// Of the samples of this kind; false when there are too few.
bool fit_link(const Calibration& c, std::string_view what, LinkFit& link) {
  std::vector<FitPoint> points;
  for (const auto& s : c.link_samples)
    if (s.what == what && s.seconds.value() > 0) points.push_back({0, s.size.value(), s.seconds.value(), 1});
  if (points.size() < 2) return false;
  const auto fit = fit_points(points);
  link.latency = fit.overhead;
  if (fit.byte_rate.value() > 0) link.bandwidth = fit.byte_rate;
  link.log_error = std::max(0.1, fit.log_error);
  return true;
}

void fit_links(Calibration& c) {
  (void)fit_link(c, "point-to-point", c.link);
  auto nodes = c.link;
  if (fit_link(c, "between nodes", nodes)) c.node_link = nodes;
}

}  // namespace

void fit(Calibration& c) {
  std::map<Group, std::vector<FitPoint>> groups;
  const bool of_gpu = !c.context.item(kGpuItem).empty();
  for (const auto& s : c.samples) {
    const double seconds = seconds_of(c, s);
    if (!(seconds > 0)) continue;
    // Fits speak of products of even sizes: others count as the work that takes such ones as long.
    const double share = of_gpu ? share_by_alignment(s.kernel) : 1;
    const FitPoint point{s.kernel.work.flops.value() / share, s.kernel.work.bytes.value(), seconds, s.from_training ? 3.0 : 1.0};
    const auto& k = s.kernel;
    groups[{k.op, k.implementation, k.family, k.dtype, k.threads}].push_back(point);
    const std::string any(any_kernel(k.implementation));
    if (any != k.implementation) groups[{k.op, any, k.family, k.dtype, k.threads}].push_back(point);
    groups[{"", any, k.family, k.dtype, k.threads}].push_back(point);
  }
  c.fits.clear();
  for (const auto& [group, points] : groups) {
    const bool of_family = std::get<0>(group).empty();
    if (points.size() < (of_family ? 2U : 3U)) continue;
    auto fit = fit_points(points);
    std::tie(fit.op, fit.implementation, fit.family, fit.dtype, fit.threads) = group;
    c.fits.push_back(std::move(fit));
  }
  fit_links(c);
}

}  // namespace rehearsal::costmodel
