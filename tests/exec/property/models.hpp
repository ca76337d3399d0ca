#pragma once
// Models as texts: an input, layers, a head, joined by '+' with their numbers behind points ("tok.6.24+attention.2.1.1+class.24"). A random
// model is such a text, so a disagreement is made smaller by leaving words out.

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "tests/exec/property/random_draws.hpp"

namespace rehearsal::property {

using Numbers = std::vector<std::int64_t>;

struct Word {
  std::string name;
  Numbers numbers;
};
[[nodiscard]] std::vector<Word> words_of(const std::string& text);
[[nodiscard]] std::string to_text(const Word&);

/// The model of a text for a batch. Layers that do not fit what is before them are left out; throws BadInput for unknown words.
[[nodiscard]] graph::Graph build_model(const std::string& text, std::int64_t batch);
/// The loss that the text's head ends in, as TrainingOptions wants it.
[[nodiscard]] std::string loss_of(const std::string& text);
/// A text of `length` layers between input and head.
[[nodiscard]] std::string random_model(Draws&, std::int64_t length);

}  // namespace rehearsal::property
