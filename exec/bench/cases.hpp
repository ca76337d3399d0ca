#pragma once
// The sweep of kernels that a calibration measures: families of layers over a grid of sizes, of no particular model,
// in f32 and in bf16.

#include <optional>
#include <string>
#include <vector>

#include "exec/kernels/kernel.hpp"
#include "graph/shape.hpp"

namespace rehearsal::exec::bench {

/// A node to be measured.
struct Case {
  std::string op;  ///< an operator row, or "reorder" or "accumulate" of operand 0
  graph::Attributes attributes = {};
  std::vector<std::optional<graph::TensorType>> inputs = {};  ///< nullopt: absent; the first never is
  bool channels_last = false;                                 ///< how image operands lie before the kernel is offered
};

/// In an order in which neighbours are of different families. `thorough`: more sizes of every family.
[[nodiscard]] std::vector<Case> sweep(bool thorough);
/// The same of sizes that keep a GPU busy, with some that do not.
[[nodiscard]] std::vector<Case> sweep_of_gpus(bool thorough);

}  // namespace rehearsal::exec::bench
