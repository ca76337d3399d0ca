#pragma once
#include "predict/frameworks/closed_step.hpp"

namespace rehearsal::predict::frameworks {

/// What no step of these stages falls below: the kernels of one stage in a row, behind the first micro-batch's way to it and before the
/// last one's way back, every message that nothing can run beside included. The stage is the one for which that is most. A hundred times
/// as quick as closed_step(), which is never less.
[[nodiscard]] StepTime least_step(const StagedStep&);

}  // namespace rehearsal::predict::frameworks
