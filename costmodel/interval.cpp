#include "costmodel/interval.hpp"

#include <cmath>

namespace rehearsal::costmodel {

std::string_view name(Mechanism m) {
  static constexpr std::array<std::string_view, kMechanisms> kNames{"matrix rate", "convolution rate", "memory rate",
                                                                    "launch",      "link bandwidth",   "composition"};
  return kNames[static_cast<std::size_t>(m)];
}

std::string_view name(Evidence e) {
  static constexpr std::array<std::string_view, 3> kNames{"exact", "fitted", "datasheet"};
  return kNames[static_cast<std::size_t>(e)];
}

void Total::add(const Estimate& e, double times) {
  const double seconds = e.seconds.value() * times;
  seconds_ += Seconds(seconds);
  weighted_error_[static_cast<std::size_t>(e.mechanism)] += std::fabs(seconds) * e.log_error;
  by_evidence_[static_cast<std::size_t>(e.evidence)] += std::fabs(seconds);
}

void Total::add(const Total& other, double times) {
  seconds_ += other.seconds_ * times;
  for (std::size_t m = 0; m < kMechanisms; ++m) weighted_error_[m] += other.weighted_error_[m] * times;
  for (std::size_t e = 0; e < by_evidence_.size(); ++e) by_evidence_[e] += other.by_evidence_[e] * times;
}

void Total::scale(double factor, Mechanism mechanism, double log_error) {
  seconds_ *= factor;
  for (double& w : weighted_error_) w *= factor;
  for (double& e : by_evidence_) e *= factor;
  weighted_error_[static_cast<std::size_t>(mechanism)] += seconds_.value() * log_error;
}

double Total::log_error() const {
  if (seconds_.value() <= 0) return 0;
  double square = 0;
  for (double w : weighted_error_) square += (w / seconds_.value()) * (w / seconds_.value());
  return std::sqrt(square);
}

Interval Total::interval() const {
  const double factor = std::exp(kNinetyPercent * log_error());
  return {seconds_.value(), seconds_.value() / factor, seconds_.value() * factor};
}

std::array<double, static_cast<std::size_t>(Evidence::Count)> Total::evidence() const {
  auto shares = by_evidence_;
  double sum = 0;
  for (double s : shares) sum += s;
  if (sum > 0)
    for (double& s : shares) s /= sum;
  return shares;
}

}  // namespace rehearsal::costmodel
