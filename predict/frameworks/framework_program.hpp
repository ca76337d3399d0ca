#pragma once
// The Program of a framework's step: what a trace of it would show, kernel by kernel. Kernels are those that the framework launches, named
// after the forward node that they compute or differentiate; every instruction has its time beside it, collectives and messages too.

#include "predict/frameworks/folded_model.hpp"
#include "predict/frameworks/staged_step.hpp"
#include "predict/step_cost.hpp"

namespace rehearsal::predict::frameworks {

struct PricedProgram {
  plan::Program program;
  ProgramCosts costs;
};

/// `node` of an instruction is one of model.whole(). Throws InternalError when the step is none of the model's.
[[nodiscard]] PricedProgram program_of(const StagedStep&, const FoldedModel& model);

}  // namespace rehearsal::predict::frameworks
