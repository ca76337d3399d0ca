#include "predict/finish.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numbers>

namespace rehearsal::predict {
namespace {

using Complex = std::complex<double>;

/// Pieces of a run, each with the copy that ends it. A piece counts `writing` after its end: the one that follows has then run so long.
struct Pieces {
  double count = 1;
  double each = 0, last = 0;  ///< seconds
  [[nodiscard]] double first() const { return count > 1 ? each : last; }
};

Pieces pieces_of(const WholeRun& run, const Disturbances& d) {
  Pieces p;
  p.count = std::max(1.0, std::ceil(run.steps / run.every * (1 - 1e-12)));
  p.each = run.every * run.step.value() + d.copying.value();
  p.last = (run.steps - (p.count - 1) * run.every) * run.step.value() + d.copying.value();
  return p;
}

/// How a piece comes to count. `again` is what that takes from a start on the last checkpoint: the piece and its writing. `left` is what
/// it takes from the moment on at which the piece before counts: that one's writing is a part of this piece.
struct TrainedStretch {
  double left = 0, again = 0;
};

TrainedStretch first_stretch(const Pieces& p, const Disturbances& d) {
  const double whole = p.first() + d.writing.value();
  return {whole, whole};
}
TrainedStretch middle_stretch(const Pieces& p, const Disturbances& d) { return {p.each, p.each + d.writing.value()}; }
/// A short last piece waits for the writing of the one before.
TrainedStretch last_stretch(const Pieces& p, const Disturbances& d) {
  return {std::max(p.last, d.writing.value()), p.last + d.writing.value()};
}

/// Expected seconds until a piece counts. With failures at rate r, P the time until the first one or the end of x, E[P] = (1 - exp(-r x)) /
/// r. From a start: a = E[P(again)] + (1 - exp(-r again)) (recovery + a). Otherwise: b = E[P(left)] + (1 - exp(-r left)) (recovery + a).
/// Recovery, in which machines fail, too, while they start: waiting exp(r R) + (exp(r R) - 1) / r. Together b = (1 + r waiting) exp(r R)
/// exp(r again) (1 - exp(-r left)) / r, and a the same with left = again.
double expected(const TrainedStretch& s, const Disturbances& d) {
  const double rate = 1 / d.between_failures.value();
  if (rate == 0) return s.left;
  const double waiting = d.waits * d.waiting.value();
  return (1 + rate * waiting) * std::exp(rate * (d.restarting.value() + s.again)) * -std::expm1(-rate * s.left) / rate;
}

/// The distribution of the time that failures add, by its Fourier transform: pieces are independent, and each one's transform follows from
/// what its expectation follows from.
class AddedTime {
 public:
  AddedTime(const WholeRun& run, const Disturbances& d) : pieces_(pieces_of(run, d)), d_(d), rate_(1 / d.between_failures.value()) {}

  /// That nothing fails.
  [[nodiscard]] double none() const {
    double left = first_stretch(pieces_, d_).left;
    if (pieces_.count > 1) left += (pieces_.count - 2) * middle_stretch(pieces_, d_).left + last_stretch(pieces_, d_).left;
    return std::exp(-rate_ * left);
  }

  /// E[exp(i w t)]
  [[nodiscard]] Complex transform(double w) const {
    Complex all = of(first_stretch(pieces_, d_), w);
    if (pieces_.count > 1) all *= of(last_stretch(pieces_, d_), w);
    if (pieces_.count > 2) all *= std::pow(of(middle_stretch(pieces_, d_), w), pieces_.count - 2);
    return all;
  }

 private:
  static Complex turned(double w, double seconds) { return std::polar(1.0, w * seconds); }

  /// A failure within so long, and the time until then.
  [[nodiscard]] Complex failed_within(double w, double seconds) const {
    const Complex s(rate_, -w);
    return rate_ / s * (1.0 - std::exp(-s * seconds));
  }

  [[nodiscard]] Complex recovery(double w) const {
    const Complex waiting = 1 - d_.waits + d_.waits * turned(w, d_.waiting.value());
    const double restarting = d_.restarting.value();
    return waiting * std::exp(-rate_ * restarting) * turned(w, restarting) / (1.0 - waiting * failed_within(w, restarting));
  }

  /// Of one piece: nothing is added, or what had run when it failed, and what that lost of the piece before, recovery and failures of the
  /// repetition.
  [[nodiscard]] Complex of(const TrainedStretch& s, double w) const {
    const Complex recovered = recovery(w);
    const Complex repeated = std::exp(-rate_ * s.again) / (1.0 - failed_within(w, s.again) * recovered);
    return std::exp(-rate_ * s.left) + failed_within(w, s.left) * turned(w, s.again - s.left) * recovered * repeated;
  }

  Pieces pieces_;
  Disturbances d_;
  double rate_;
};

/// A distribution by the cosine series of its density, whose coefficients are values of its transform (F. Fang and C. W. Oosterlee, "A
/// novel pricing method for European options based on Fourier-cosine series expansions", SIAM Journal on Scientific Computing 31, 2008).
/// The share of trainings that nothing disturbs is no part of the density, and is kept apart.
class Distribution {
 public:
  Distribution(const AddedTime& added, double mean, double of_a_failure) : none_(added.none()) {
    // |E[exp(i w t)]| = 1 - variance w^2 / 2 + ... for small w
    const double w = 1e-3 / (mean + of_a_failure);
    const double deviation = std::sqrt(std::max(0.0, -2 * std::log(std::abs(added.transform(w))))) / w;
    constexpr double kDeviations = 12;
    low_ = std::max(0.0, mean - kDeviations * deviation);
    width_ = mean + kDeviations * deviation + 2 * of_a_failure - low_;
    for (std::size_t k = 0; k < terms_.size(); ++k) {
      const double frequency = static_cast<double>(k) * std::numbers::pi / width_;
      terms_[k] = 2 / width_ * std::real((added.transform(frequency) - none_) * std::polar(1.0, -frequency * low_));
    }
  }

  /// Seconds before which this share ends.
  [[nodiscard]] double quantile(double share) const {
    if (share <= none_) return 0;
    double below = low_, above = low_ + width_;
    constexpr int kHalvings = 60;
    for (int n = 0; n < kHalvings; ++n) {
      const double middle = (below + above) / 2;
      (cumulative(middle) < share ? below : above) = middle;
    }
    return above;
  }

 private:
  [[nodiscard]] double cumulative(double seconds) const {
    double sum = none_ + terms_[0] / 2 * (seconds - low_);
    for (std::size_t k = 1; k < terms_.size(); ++k) {
      const double frequency = static_cast<double>(k) * std::numbers::pi / width_;
      sum += terms_[k] / frequency * std::sin(frequency * (seconds - low_));
    }
    return sum;
  }

  double none_ = 0, low_ = 0, width_ = 0;
  std::array<double, 1024> terms_{};
};

double seconds_without_failure(const WholeRun& run, const Disturbances& d) {
  Disturbances reliable = d;
  reliable.between_failures = Disturbances{}.between_failures;
  return expected_finish(run, reliable).value();
}

}  // namespace

Seconds expected_finish(const WholeRun& run, const Disturbances& d) {
  const auto pieces = pieces_of(run, d);
  double sum = expected(first_stretch(pieces, d), d);
  if (pieces.count > 1) sum += (pieces.count - 2) * expected(middle_stretch(pieces, d), d) + expected(last_stretch(pieces, d), d);
  return Seconds(sum);
}

double expected_failures(const WholeRun& run, const Disturbances& d) {
  // At a constant rate, but for waits: of n failures and t seconds, n = (t - n waiting) / between_failures.
  return expected_finish(run, d) / (d.between_failures + d.waiting * d.waits);
}

costmodel::Interval finish(const WholeRun& run, const Disturbances& d) {
  const double least = seconds_without_failure(run, d), mean = expected_finish(run, d).value();
  if (!(mean > least) || !std::isfinite(mean)) return {mean, mean, mean};
  constexpr double kLow = 0.05, kHigh = 0.95;
  const auto pieces = pieces_of(run, d);
  const double of_a_failure = pieces.first() + (d.writing + d.restarting + d.waiting).value();
  const Distribution added(AddedTime(run, d), mean - least, of_a_failure);
  // Where hardly any training fails, its few long ones pull the mean beyond what 95 % of trainings take.
  return {mean, std::min(mean, least + added.quantile(kLow)), std::max(mean, least + added.quantile(kHigh))};
}

double fewest_steps_between(const WholeRun& run, const Disturbances& d) {
  return std::max(1.0, std::ceil((d.writing - d.copying) / run.step));
}

double best_steps_between(const WholeRun& run, const Disturbances& d) {
  // What n equal pieces are expected to take is convex in n: n exp(r writing) (exp(r (work / n + copying)) - 1), times what n is no part
  // of, and a constant. The first n behind which it rises is the best.
  const double most = std::max(1.0, std::floor(run.steps / fewest_steps_between(run, d)));
  const auto with_pieces = [&](double n) { return expected_finish({run.step, run.steps, run.steps / n}, d); };
  double below = 1, above = most;
  constexpr int kHalvings = 200;  // doubles have an end, also of trainings that have none
  for (int n = 0; n < kHalvings && below < above; ++n) {
    const double middle = std::floor((below + above) / 2);
    if (with_pieces(middle + 1) < with_pieces(middle))
      below = middle + 1;
    else
      above = middle;
  }
  // In whole steps the last piece has what is left: of the numbers of steps near by one leaves it longer than another.
  constexpr double kNear = 3;
  const double fewest = std::min(run.steps, fewest_steps_between(run, d)), middle = std::max(fewest, std::round(run.steps / below));
  const auto with_steps = [&](double every) { return expected_finish({run.step, run.steps, every}, d); };
  double best = middle;
  for (double beside = -kNear; beside <= kNear; ++beside) {
    const double every = std::clamp(middle + beside, fewest, run.steps);
    if (with_steps(every) < with_steps(best)) best = every;
  }
  return best;
}

Seconds young_interval(Seconds copying, Seconds between_failures) {
  return Seconds(std::sqrt(2 * copying.value() * between_failures.value()));
}

Seconds daly_interval(Seconds copying, Seconds between_failures) {
  const double small = copying / between_failures / 2;
  if (small >= 1) return between_failures;
  return young_interval(copying, between_failures) * (1 + std::sqrt(small) / 3 + small / 9) - copying;
}

double share_without_spare(int spares, Seconds replacement, Seconds between_failures) {
  // B(0) = 1, B(n) = a B(n - 1) / (n + a B(n - 1)), of a load a: this recurrence does not overflow.
  const double load = replacement / between_failures;
  double share = 1;
  for (int n = 1; n <= spares; ++n) share = load * share / (n + load * share);
  return share;
}

}  // namespace rehearsal::predict
