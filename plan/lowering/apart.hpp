#pragma once
#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// overlap=off: within a body a collective waits for everything that was computed before it, and what is computed after it waits for it.
/// (What side branches compute, as those of residual blocks, could run beside a collective of the main one, since no tensor ties them.)
void keep_collectives_apart(Role&);

}  // namespace rehearsal::plan
