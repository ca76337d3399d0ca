// Kaplan et al. 2020. The loss is equation 1.5 with the constants of table 2, parameters without embeddings; the allocation is table 5's
// (C in PF-days, for batches far below the critical one).

#include <cmath>

#include "predict/scaling/law.hpp"

namespace rehearsal::predict::scaling {
namespace {

constexpr double kAlphaParameters = 0.076, kAlphaTokens = 0.103, kParameters = 6.4e13, kTokens = 1.8e13;

double kaplan_loss(double parameters, double tokens) {
  return std::pow(std::pow(kParameters / parameters, kAlphaParameters / kAlphaTokens) + kTokens / tokens, kAlphaTokens);
}

Allocation kaplan_best(Flops budget) {
  constexpr double kPetaflopDay = 1e15 * 86400, kAtOne = 1.3e9, kExponent = 0.73;
  const double parameters = kAtOne * std::pow(budget.value() / kPetaflopDay, kExponent);
  return {parameters, budget.value() / (kFlopsOfParameterAndToken * parameters)};
}

}  // namespace

ScalingLaw kaplan_2020() {
  return {.name = "kaplan",
          .source = "J. Kaplan et al., Scaling Laws for Neural Language Models, 2020, equation 1.5, tables 2 and 5",
          .data = "WebText2, the 50,257 tokens of GPT-2",
          .without_embeddings = true,
          .parameters = {768, 1.5e9},
          .tokens = {2.2e7, 2.3e10},
          .loss = kaplan_loss,
          .best = kaplan_best,
          .superseded =
              "its runs shared one schedule of the learning rate whatever their length, and embeddings were left out of N "
              "(Hoffmann et al. 2022, section 2; Pearce and Song 2024): it asks for models that are too large"};
}

}  // namespace rehearsal::predict::scaling
