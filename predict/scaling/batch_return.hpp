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

/// What batches of a size make of a law's tokens, which are taken for those of small batches.
class LawInBatches {
 public:
  /// Both must outlive it.
  LawInBatches(const ScalingLaw&, const LanguageModel&);
  /// Critical batch at a loss, in tokens. Above the loss at which a training with endless batches takes the fewest steps, D / C, it is that
  /// at this loss: early in a training C rises more quickly than D, and lower losses would take fewer steps.
  [[nodiscard]] double critical(double loss) const;
  /// D (1 + B / C): tokens in batches of B tokens after which the loss is that of D tokens in small ones.
  [[nodiscard]] double in_batches(double tokens, double batch) const;
  /// The other way round: D.
  [[nodiscard]] double in_small_batches(double tokens, double batch) const;

 private:
  [[nodiscard]] double loss_after(double tokens) const;

  const ScalingLaw* law_;
  const LanguageModel* model_;
  double highest_;  ///< loss above which the critical batch stays
};

}  // namespace rehearsal::predict::scaling
