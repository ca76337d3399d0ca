#pragma once
// What scaling laws look at in a model.

#include <cstdint>

#include "graph/graph.hpp"
#include "predict/scaling/law.hpp"

namespace rehearsal::predict::scaling {

struct LanguageModel {
  double parameters = 0;
  double without_embeddings = 0;  ///< without the matrices that have a row or column for every word
  Flops per_token;                ///< forward and backward, as the graph's operators count them: attention and the words' scores, too
  double tokens_per_sample = 0;
  std::int64_t words = 0;  ///< of the vocabulary

  [[nodiscard]] TrainingSize scale(double tokens) const { return {parameters, without_embeddings, tokens}; }
  /// per_token over 6 N: what C = 6 N D leaves out.
  [[nodiscard]] double flops_over_six_n() const { return per_token.value() / (kFlopsOfParameterAndToken * parameters); }
};

/// Of a forward graph. Throws Refusal where laws say nothing of it: it is no decoder of tokens, or tokens choose among experts.
[[nodiscard]] LanguageModel language_model(const graph::Graph& forward, const std::string& name);

}  // namespace rehearsal::predict::scaling
