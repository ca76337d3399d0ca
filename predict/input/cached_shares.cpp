#include "predict/input/cached_shares.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace rehearsal::predict {
namespace {

constexpr double kRest = 1e-9;  ///< chance that is left out of a sum

struct QuadraturePoint {
  double at, weight;
};
/// Gauss and Legendre's rule between 0 and 1: exact for polynomials up to the degree 2 kPoints - 1. Roots by Newton's method.
std::span<const QuadraturePoint> gauss_legendre() {
  constexpr int kPoints = 16, kSteps = 8;
  static const auto kRule = [] {
    std::array<QuadraturePoint, kPoints> rule{};
    for (int i = 0; i < kPoints; ++i) {
      double x = std::cos(std::numbers::pi * (i + 0.75) / (kPoints + 0.5)), slope = 1;
      for (int step = 0; step < kSteps; ++step) {
        const double value = std::legendre(kPoints, x);
        slope = kPoints * (x * value - std::legendre(kPoints - 1, x)) / (x * x - 1);
        x -= value / slope;
      }
      rule[static_cast<std::size_t>(i)] = {(1 + x) / 2, 1 / ((1 - x * x) * slope * slope)};
    }
    return rule;
  }();
  return kRule;
}

bool has_end(const CacheQuestion& q) { return q.epochs >= 2; }

CachedShares own_alone(double share) {
  const double own = std::clamp(share, 0.0, 1.0);
  return {own, 0, 1 - own};
}

CachedShares none(const CacheQuestion&) { return {}; }

/// Mean over epochs 2 to E of min(c, 1 - q^(e - 1)), q = 1 - 1 / n: the first m terms grow, the others are c.
double first_touched(const CacheQuestion& q) {
  if (!has_end(q) || q.nodes == 1) return q.room;
  const double stays = 1 - 1.0 / q.nodes, later = q.epochs - 1;
  const double growing = q.room < 1 ? std::min(later, std::floor(std::log1p(-q.room) / std::log(stays))) : later;
  const double geometric = stays * (1 - std::pow(stays, growing)) / (1 - stays);
  return (growing - geometric + (later - growing) * q.room) / later;
}

CachedShares node(const CacheQuestion& q) { return own_alone(first_touched(q)); }

/// Chance that X Y >= a, X and Y uniform between `low` and 1.
double chance_of_product(double a, double low) {
  if (a <= low * low) return 1;
  if (a >= 1) return 0;
  if (a >= low) return (1 - a + a * std::log(a)) / ((1 - low) * (1 - low));
  const double bend = a / low;  // of X: Y has to be `low` at least behind it, a / X before it
  return (bend - low - a * std::log(bend / low) + (1 - bend) * (1 - low)) / ((1 - low) * (1 - low));
}

CachedShares lru(const CacheQuestion& q) {
  const double wanted = 1.0 / q.nodes, stays = 1 - wanted;
  double share = 0, untouched = 1, seen = 0;  // (1 - p)^(k - 1)
  for (int k = 1; untouched > kRest && (!has_end(q) || k < q.epochs); ++k, untouched *= stays) {
    // Only epochs behind the k-th have a sample that was wanted k epochs ago.
    const double of_epochs = has_end(q) ? (q.epochs - k) / (q.epochs - 1) : 1;
    share += wanted * untouched * of_epochs * chance_of_product((1 - q.room) / untouched, stays);
    seen += wanted * untouched;
  }
  return own_alone(has_end(q) ? share : share / seen);
}

/// Chances of 0, 1, ... successes of Binomial(trials, p).
double binomial(int trials, double p, int successes) {
  if (p >= 1) return successes == trials ? 1 : 0;
  return std::exp(std::lgamma(trials + 1.0) - std::lgamma(successes + 1.0) - std::lgamma(trials - successes + 1.0) +
                  successes * std::log(p) + (trials - successes) * std::log1p(-p));
}

/// Which share of the samples that a node wants r times it keeps: the room filled from those that it wants most often.
std::vector<double> kept_by_wants(const CacheQuestion& q, int epochs) {
  std::vector<double> kept(static_cast<std::size_t>(epochs) + 1);
  double left = q.room;
  for (int often = epochs; often > 0 && left > 0; --often) {
    const double there = binomial(epochs, 1.0 / q.nodes, often);
    kept[static_cast<std::size_t>(often)] = there > left ? left / there : 1;
    left -= std::min(left, there);
  }
  return kept;
}

/// Of what is wanted in all epochs that share is kept, and each kept sample comes from the storage once. The first epoch reads 1 / n of the
/// samples from there.
CachedShares clairvoyant(const CacheQuestion& q) {
  if (!has_end(q)) return own_alone(q.room);
  const double wanted = 1.0 / q.nodes;
  const int epochs = static_cast<int>(q.epochs);
  const auto share = kept_by_wants(q, epochs);
  double kept_wants = 0, kept = 0;
  for (int often = 1; often <= epochs; ++often) {
    const double taken = share[static_cast<std::size_t>(often)] * binomial(epochs, wanted, often);
    kept_wants += often * taken;
    kept += taken;
  }
  const double from_storage = epochs * wanted - kept_wants + kept;
  return own_alone(1 - (from_storage - wanted) / ((epochs - 1) * wanted));
}

/// The product of two polynomials of one degree, without what is of a higher one.
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> c(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; i + j < a.size(); ++j) c[i + j] += a[i] * b[j];
  return c;
}

/// The mean of y^M, M being how many of a sample's `epochs` uses are at nodes that keep it. The uses of the nodes are independent Poisson
/// numbers of the mean epochs / n, given that they sum to `epochs`: a coefficient of the n-th power of one node's polynomial.
double mean_power_of_keepers(const std::vector<double>& kept, int nodes, double y) {
  const auto epochs = static_cast<int>(kept.size()) - 1;
  const auto poisson = [](double mean, int k) { return std::exp(k * std::log(mean) - mean - std::lgamma(k + 1.0)); };
  std::vector<double> node(kept.size()), all(kept.size());
  for (int r = 0; r <= epochs; ++r) {
    const double keeps = kept[static_cast<std::size_t>(r)];
    node[static_cast<std::size_t>(r)] = poisson(static_cast<double>(epochs) / nodes, r) * (keeps * std::pow(y, r) + 1 - keeps);
  }
  all[0] = 1;
  for (int left = nodes; left > 0; left /= 2) {
    if (left % 2 == 1) all = product(all, node);
    if (left > 1) node = product(node, node);
  }
  return all.back() / poisson(epochs, epochs);
}

/// A node asks the others for what they keep. The first use of a sample at a node that keeps it, and all before that, come from the
/// storage: of E uses in random order, M of them at such nodes, (E + 1) / (M + 1) in the mean, and E where M is 0. The mean of 1 / (M + 1)
/// is that of y^M over y from 0 to 1. Behind so many epochs that counting all of them changes nothing, uses that find no keeper grow with E
/// alone.
CachedShares global_clairvoyant(const CacheQuestion& q) {
  constexpr int kCounted = 200;
  const double own = clairvoyant(q).own;
  const int counted = has_end(q) ? static_cast<int>(std::min<double>(q.epochs, kCounted)) : kCounted;
  const auto kept = kept_by_wants(q, counted);
  const double nowhere = mean_power_of_keepers(kept, q.nodes, 0);
  double reciprocal = 0;
  for (const auto& [point, weight] : gauss_legendre()) reciprocal += weight * mean_power_of_keepers(kept, q.nodes, point);
  const double of_keepers = (counted + 1) * reciprocal - (counted + 1) * nowhere;  // until one keeps it, where any does
  const double storage = has_end(q) ? (q.epochs * nowhere + of_keepers - 1) / (q.epochs - 1) : nowhere;
  const double missing = std::clamp(storage, 0.0, 1 - own);
  return {own, 1 - own - missing, missing};
}

/// A node keeps what it read first of its own share, then, where all have room for more, what peers gave it.
CachedShares global(const CacheQuestion& q) {
  const double own = first_touched(q);
  const double all = std::max(own, std::min(1.0, q.room * q.nodes));
  return {own, all - own, 1 - all};
}

constexpr std::array kKinds{
    CacheKind{"none", "nothing is kept", false, none},
    CacheKind{"node", "a node keeps what it reads until its cache is full", false, node},
    CacheKind{"node:lru", "a node drops what it has not wanted for longest, as the page cache does", false, lru},
    CacheKind{"node:clairvoyant", "a node keeps what it will want most often", false, clairvoyant},
    CacheKind{"global", "nodes keep different samples and ask each other for them", true, global},
    CacheKind{"global:clairvoyant", "a node keeps what it will want most often and asks others for what they keep, as NoPFS does", true,
              global_clairvoyant},
};

}  // namespace

std::span<const CacheKind> cache_kinds() { return kKinds; }

}  // namespace rehearsal::predict
