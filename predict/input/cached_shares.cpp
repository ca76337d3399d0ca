#include "predict/input/cached_shares.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace rehearsal::predict {
namespace {

constexpr double kRest = 1e-9;  ///< chance that is left out of a sum

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

/// Samples in order of how often they are wanted, the room filled from the top: of what is wanted in all epochs that share is kept, and
/// each kept sample comes from the storage once. The first epoch reads 1 / n of the samples from there.
CachedShares clairvoyant(const CacheQuestion& q) {
  if (!has_end(q)) return own_alone(q.room);
  const double wanted = 1.0 / q.nodes;
  const int epochs = static_cast<int>(q.epochs);
  double left = q.room, kept_wants = 0, kept = 0;
  for (int often = epochs; often > 0 && left > 0; --often) {
    const double taken = std::min(left, binomial(epochs, wanted, often));
    kept_wants += often * taken;
    kept += taken;
    left -= taken;
  }
  const double from_storage = epochs * wanted - kept_wants + kept;
  return own_alone(1 - (from_storage - wanted) / ((epochs - 1) * wanted));
}

/// A node keeps what it read first of its own share, then, where all have room for more, what peers gave it.
CachedShares global(const CacheQuestion& q) {
  const double own = first_touched(q);
  const double all = std::max(own, std::min(1.0, q.room * q.nodes));
  return {own, all - own, 1 - all};
}

constexpr std::array kKinds{
    CacheKind{"none", "nothing is kept", none},
    CacheKind{"node", "a node keeps what it reads until its cache is full", node},
    CacheKind{"node:lru", "a node drops what it has not wanted for longest, as the page cache does", lru},
    CacheKind{"node:clairvoyant", "a node keeps what it will want most often, as NoPFS does", clairvoyant},
    CacheKind{"global", "nodes keep different samples and ask each other for them", global},
};

}  // namespace

std::span<const CacheKind> cache_kinds() { return kKinds; }

}  // namespace rehearsal::predict
