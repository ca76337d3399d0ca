// What the module that predict/simulation.hpp opens exports.
#include <string_view>

#include "sim/evaluator.hpp"

extern "C" __attribute__((visibility("default"))) rehearsal::predict::StepEvaluator* rehearsal_make_simulator(const char* fidelity) {
  if (std::string_view(fidelity) == "folded") return rehearsal::sim::folded_evaluator().release();
  if (std::string_view(fidelity) == "full") return rehearsal::sim::full_evaluator().release();
  return nullptr;
}
