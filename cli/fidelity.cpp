#include "cli/fidelity.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include <CLI/CLI.hpp>

#include "base/names.hpp"
#include "predict/simulation.hpp"

namespace rehearsal::cli {
namespace {

constexpr std::array<std::string_view, 3> kFidelities{"closed", "folded", "full"};

}  // namespace

std::unique_ptr<predict::StepEvaluator> evaluator_of(Fidelity fidelity) {
  if (fidelity == Fidelity::Closed) return predict::closed_form_evaluator();
  return predict::open_simulator(fidelity == Fidelity::Folded ? "folded" : "full");
}

Fidelity fidelity_of(const std::string& text, const char* option) {
  const auto name = known_name(option, text, {kFidelities.begin(), kFidelities.end()});
  return static_cast<Fidelity>(std::ranges::find(kFidelities, name) - kFidelities.begin());
}

std::string_view name(Fidelity fidelity) { return kFidelities[static_cast<std::size_t>(fidelity)]; }

void add_fidelity_to(CLI::App& app, std::string& text) {
  app.add_option("--fidelity", text, "closed (formulas), folded (one replica played), full (every rank played)");
}

predict::Assessment assess(predict::Predictor& predictor, const plan::Plan& plan, Fidelity fidelity, Recording* recording) {
  if (fidelity == Fidelity::Closed && recording == nullptr) return predictor.closed(plan);
  Recording own;
  auto& kept = recording != nullptr ? *recording : own;
  kept.step = predictor.playable(plan);
  return assess(predictor, fidelity, kept, recording != nullptr);
}

predict::Assessment assess(predict::Predictor& predictor, Fidelity fidelity, Recording& recording, bool keep_timeline) {
  const auto evaluator = evaluator_of(fidelity);
  const auto begin = std::chrono::steady_clock::now();
  auto assessment = predictor.played(recording.step, *evaluator, keep_timeline ? &recording.timeline : nullptr);
  recording.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return assessment;
}

}  // namespace rehearsal::cli
