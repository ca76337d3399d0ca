#pragma once
// Nodes of rows that no gradient case has: of whole numbers and truths, of updates, and those that lowering writes.

#include <string>
#include <vector>

#include "graph/builder.hpp"

namespace rehearsal::graph {

struct SingleNode {
  std::string op;
  std::vector<std::optional<TensorType>> operands;
  Attributes attributes = {};
};
using SingleNodes = std::vector<SingleNode>;

[[nodiscard]] SingleNodes elementwise_nodes();
[[nodiscard]] SingleNodes matrix_nodes();
[[nodiscard]] SingleNodes attention_nodes();
[[nodiscard]] SingleNodes reduction_nodes();
[[nodiscard]] SingleNodes movement_nodes();
[[nodiscard]] SingleNodes gather_nodes();
[[nodiscard]] SingleNodes image_nodes();
[[nodiscard]] SingleNodes normalization_nodes();
[[nodiscard]] SingleNodes loss_nodes();
[[nodiscard]] SingleNodes update_nodes();

}  // namespace rehearsal::graph
