#pragma once
// How many steps trainings with batches of several sizes take to one target, each with the learning rate that suits it:
//   steps(B) = S (1 + C / B)     samples(B) = S (B + C)
// S is what endless batches would take. C is the critical batch: there a training takes twice the least steps and twice the least samples,
// S C (McCandlish, Kaplan, Amodei, OpenAI Dota Team, "An Empirical Model of Large-Batch Training", 2018, equation 2.11).

#include <span>

#include "predict/scaling/language_model.hpp"

namespace rehearsal::predict::scaling {

/// A training that came to the target.
struct Reached {
  double batch = 0, steps = 0;
};

struct BatchReturn {
  double least_steps = 0;    ///< S; 0: the critical batch is larger than can be seen, and any batch takes the least samples
  double least_samples = 0;  ///< S C; 0: larger batches save no step
  double misfit = 0;         ///< largest share by which a training that it rests on took more or fewer steps

  [[nodiscard]] double steps(double batch) const { return least_steps + least_samples / batch; }
  [[nodiscard]] double samples(double batch) const { return steps(batch) * batch; }
  /// Infinite where least_steps is 0.
  [[nodiscard]] double critical_batch() const { return least_samples / least_steps; }
};

/// By least squares of relative errors of steps, both figures at least 0. Throws BadInput where all have one batch size, or a number is not
/// above 0.
[[nodiscard]] BatchReturn fitted(std::span<const Reached>);
/// Of one training whose critical batch is known.
[[nodiscard]] BatchReturn through(const Reached&, double critical_batch);

/// Tokens after which the law's loss is as low. Throws Refusal where the model never comes there, or only after more than 1e18 tokens.
[[nodiscard]] double tokens_to(const ScalingLaw&, const LanguageModel&, double loss);
/// Critical batch of language models at a loss, in tokens: 2.1e8 / loss^(1 / 0.21) (Kaplan et al. 2020, equation 5.3 and their
/// appendix A).
[[nodiscard]] double critical_tokens(double loss);

}  // namespace rehearsal::predict::scaling
