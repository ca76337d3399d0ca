#pragma once
// How closely a step is looked at: by closed forms, or played instruction by instruction.

#include <memory>
#include <string>

#include "predict/predictor.hpp"

namespace CLI {
class App;
}

namespace rehearsal::cli {

enum class Fidelity : std::uint8_t {
  Closed,  ///< formulas
  Folded,  ///< one replica is played, messages take the time of their formula
  Full,    ///< every rank is played, messages share links
};
/// Throws BadInput listing the names.
[[nodiscard]] Fidelity fidelity_of(const std::string& text, const char* option = "--fidelity");
[[nodiscard]] std::string_view name(Fidelity);
[[nodiscard]] std::unique_ptr<predict::StepEvaluator> evaluator_of(Fidelity);
void add_fidelity_to(CLI::App&, std::string& text);

/// What of a played step is kept beside its assessment.
struct Recording {
  predict::PlayableStep step;
  predict::Timeline timeline;
  double wall_seconds = 0;
};
/// Closed: nothing is played, unless `recording` is wanted.
[[nodiscard]] predict::Assessment assess(predict::Predictor&, const plan::Plan&, Fidelity, Recording* recording);
/// The same of a step at hand.
[[nodiscard]] predict::Assessment assess(predict::Predictor&, Fidelity, Recording&, bool keep_timeline);

}  // namespace rehearsal::cli
