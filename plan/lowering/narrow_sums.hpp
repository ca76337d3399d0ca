#pragma once
// Gradients of parameters that travel between ranks in 16 bits.

#include <optional>

#include "base/dtype.hpp"
#include "plan/plan.hpp"

namespace rehearsal::plan {

/// The type in which the plan sends gradients: compression=bf16 or f16; nothing where it sends them as they are.
[[nodiscard]] std::optional<DType> type_on_the_way(const Plan&);
/// Does the plan's compression keep results of the forward pass in fewer bytes?
[[nodiscard]] bool compresses_results(const Plan&);

}  // namespace rehearsal::plan
