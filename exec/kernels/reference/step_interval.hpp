#pragma once
// Kernels that compute in some steps only.

#include <cstdint>

#include "graph/attributes.hpp"

namespace rehearsal::exec::reference {

/// In which steps, counted from 1, a kernel with the attribute "interval" computes: in the first, and in every interval-th behind it.
[[nodiscard]] inline bool computes_in(std::int64_t step, const graph::Attributes& attributes) {
  return (step - 1) % attributes.integer("interval", 1) == 0;
}

}  // namespace rehearsal::exec::reference
