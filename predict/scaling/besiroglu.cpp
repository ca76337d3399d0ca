// Besiroglu et al. 2024: Hoffmann's parametric loss, fitted again to 240 of their runs read off a figure.

#include "predict/scaling/law.hpp"

namespace rehearsal::predict::scaling {
namespace {

/// Standard errors: 0.03, 125, 1293, 0.02, 0.02.
constexpr ParametricLoss kBesiroglu{1.8172, 482.01, 2085.43, 0.3478, 0.3658};

}  // namespace

ScalingLaw besiroglu_2024() {
  return {.name = "besiroglu",
          .source =
              "T. Besiroglu et al., Chinchilla Scaling: A Replication Attempt, 2024: L = 1.8172 + 482.01 / N^0.3478 + 2085.43 / "
              "D^0.3658",
          .data = "MassiveText, 32,000 tokens of SentencePiece",
          .parameters = {7e7, 1.6e10},
          .tokens = {5e9, 5e11},
          .loss = [](double n, double d) { return kBesiroglu.at(n, d); },
          .best = [](Flops budget) { return kBesiroglu.best(budget); }};
}

}  // namespace rehearsal::predict::scaling
