// Allocations that later reports fitted to data of their own. They give no loss by parameters and tokens.

#include <cmath>

#include "predict/scaling/law.hpp"

namespace rehearsal::predict::scaling {

ScalingLaw deepseek_2024() {
  return {.name = "deepseek",
          .source = "DeepSeek-AI, DeepSeek LLM, 2024, equation 4: D = 5.8316 C^0.4757, C by FLOPs without those of embeddings",
          .data = "DeepSeek's text in English and Chinese, 102,400 tokens",
          .without_embeddings = true,
          .flops = {1e17, 3e20},
          .best = [](Flops budget) -> Allocation {
            const double tokens = 5.8316 * std::pow(budget.value(), 0.4757);
            return {budget.value() / (kFlopsOfParameterAndToken * tokens), tokens};
          }};
}

ScalingLaw llama3_2024() {
  return {.name = "llama3",
          // The report's 0.29 C^0.53 is rounded so far that it misses its own example by a third; this goes through the example.
          .source = "A. Grattafiori et al., The Llama 3 Herd of Models, 2024, section 3.2.1: 16.55 T tokens for 3.8e25 FLOP, D as C^0.53",
          .data = "Llama 3's text, 128,256 tokens",
          .parameters = {4e7, 1.6e10},
          .flops = {6e18, 1e22},
          .best = [](Flops budget) -> Allocation {
            const double tokens = 16.55e12 * std::pow(budget.value() / 3.8e25, 0.53);
            return {budget.value() / (kFlopsOfParameterAndToken * tokens), tokens};
          }};
}

}  // namespace rehearsal::predict::scaling
