#include "predict/scaling/batch_return.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.hpp"

namespace rehearsal::predict::scaling {
namespace {

/// Of steps over those that were taken: x = 1 / steps and y = 1 / (batch steps), for which S x + (S C) y should be 1.
struct Sums {
  double x = 0, y = 0, xx = 0, xy = 0, yy = 0;
};

Sums sums_of(std::span<const Reached> trainings) {
  Sums s;
  for (const auto& t : trainings) {
    const double x = 1 / t.steps, y = x / t.batch;
    s.x += x, s.y += y, s.xx += x * x, s.xy += x * y, s.yy += y * y;
  }
  return s;
}

void require_usable(std::span<const Reached> trainings) {
  for (const auto& t : trainings)
    if (!(t.batch > 0) || !(t.steps > 0) || !std::isfinite(t.batch) || !std::isfinite(t.steps))
      throw BadInput("a training to the target", "must have a batch and a number of steps above 0");
  const auto [least, most] = std::ranges::minmax_element(trainings, {}, &Reached::batch);
  if (trainings.empty() || least->batch == most->batch)
    throw BadInput("trainings to the target", "must have batches of two sizes at least: one does not say what another size takes");
}

}  // namespace

BatchReturn fitted(std::span<const Reached> trainings) {
  require_usable(trainings);
  const auto s = sums_of(trainings);
  const double determinant = s.xx * s.yy - s.xy * s.xy;
  BatchReturn r{(s.x * s.yy - s.y * s.xy) / determinant, (s.y * s.xx - s.x * s.xy) / determinant, 0};
  if (!(r.least_steps > 0)) r = {0, s.y / s.yy, 0};
  if (!(r.least_samples > 0)) r = {s.x / s.xx, 0, 0};
  for (const auto& t : trainings) r.misfit = std::max(r.misfit, std::abs(r.steps(t.batch) / t.steps - 1));
  return r;
}

BatchReturn through(const Reached& t, double critical_batch) {
  const double least = t.steps / (1 + critical_batch / t.batch);
  return {least, least * critical_batch, 0};
}

double tokens_to(const ScalingLaw& law, const LanguageModel& model, double loss) {
  constexpr double kFewest = 1, kMost = 1e18;
  const auto at = [&](double tokens) { return law.loss_of(model.scale(tokens)); };
  if (at(kMost) > loss) {
    char text[200];
    std::snprintf(text, sizeof text, "--to-loss %g: by %.*s's law the loss of %.3g parameters falls to %.4g at best; take a larger model",
                  loss, static_cast<int>(law.name.size()), law.name.data(), model.parameters, at(kMost));
    throw Refusal(text);
  }
  double low = std::log(kFewest), high = std::log(kMost);
  constexpr int kHalvings = 100;
  for (int n = 0; n < kHalvings; ++n) {
    const double middle = (low + high) / 2;
    (at(std::exp(middle)) > loss ? low : high) = middle;
  }
  return std::exp(high);
}

double critical_tokens(double loss) {
  constexpr double kTokens = 2.1e8, kExponent = 0.21;
  return kTokens / std::pow(loss, 1 / kExponent);
}

LawInBatches::LawInBatches(const ScalingLaw& law, const LanguageModel& model) : law_(&law), model_(&model) {
  // D / C falls with the tokens up to where it is least, and rises from there: thirds without it are left out.
  constexpr double kFewest = 1, kMost = 1e18;
  constexpr int kThirds = 100;
  const auto steps = [&](double log_tokens) { return log_tokens - std::log(critical_tokens(loss_after(std::exp(log_tokens)))); };
  double low = std::log(kFewest), high = std::log(kMost);
  for (int n = 0; n < kThirds; ++n) {
    const double third = (high - low) / 3;
    if (steps(low + third) > steps(high - third))
      low += third;
    else
      high -= third;
  }
  highest_ = loss_after(std::exp(low));
}

double LawInBatches::loss_after(double tokens) const { return law_->loss_of(model_->scale(tokens)); }

double LawInBatches::critical(double loss) const { return critical_tokens(std::min(loss, highest_)); }

double LawInBatches::in_batches(double tokens, double batch) const { return tokens * (1 + batch / critical(loss_after(tokens))); }

double LawInBatches::in_small_batches(double tokens, double batch) const {
  double low = tokens / (1 + batch / critical(highest_)), high = tokens;
  constexpr int kHalvings = 100;
  for (int n = 0; n < kHalvings; ++n) {
    const double middle = (low + high) / 2;
    (in_batches(middle, batch) < tokens ? low : high) = middle;
  }
  return high;
}

}  // namespace rehearsal::predict::scaling
