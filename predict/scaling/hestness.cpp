// Hestness et al. 2017: how the loss of word language models falls with the words that the best model for each amount is trained on. It
// says nothing of a given size, so that it chooses none.

#include <cmath>

#include "predict/scaling/law.hpp"

namespace rehearsal::predict::scaling {

ScalingLaw hestness_2017() {
  return {.name = "hestness",
          .source =
              "J. Hestness et al., Deep Learning Scaling is Predictable, Empirically, 2017, figure 2: 13.0 m^-0.066 for two-layer "
              "LSTMs, of the best size for m words",
          .data = "words of the Billion Word benchmark, of the 10,000 most frequent",
          .tokens = {1e6, 7.68e8},
          .loss = [](double, double words) { return 13.0 * std::pow(words, -0.066); }};
}

}  // namespace rehearsal::predict::scaling
