#pragma once
// Pipelines with two copies of the model that go opposite ways (DualPipe): a rank has a stage of each.

#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// One role that does what both do: the bodies of both, one exchange of sums, both updates. `stages`: of the pipeline. The copy whose part
/// lies deeper in the model is done first.
[[nodiscard]] Role joined_copies(Role first, Role second, int stages);

}  // namespace rehearsal::plan
