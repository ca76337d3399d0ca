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
  std::vector<std::optional<graph::TensorType>> inputs = {};   ///< nullopt: absent; the first never is
  bool channels_last = false;                                  ///< how image operands lie before the kernel is offered
  std::vector<std::optional<graph::TensorType>> outputs = {};  ///< empty: as the operator infers them
  std::string implementation = {};                             ///< of Backend::offers(); empty: the backend's own choice
};

/// A case as backends are asked about it.
class CaseNode {
 public:
  explicit CaseNode(const Case&);
  [[nodiscard]] const graph::OpSchema& schema() const { return schema_; }
  [[nodiscard]] const graph::Attributes& attributes() const { return attributes_; }
  [[nodiscard]] const std::vector<std::optional<graph::TensorType>>& inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<std::optional<graph::TensorType>>& outputs() const { return outputs_; }
  /// While this is there.
  [[nodiscard]] plan::LocalNode on(int threads) const { return {schema_, attributes_, inputs_, outputs_, formats_, threads}; }

 private:
  const graph::OpSchema& schema_;
  graph::Attributes attributes_;
  std::vector<std::optional<graph::TensorType>> inputs_, outputs_;
  std::vector<plan::Format> formats_;
};

/// The case by every kernel that may be quicker than the one that the backend takes.
[[nodiscard]] std::vector<Case> by_other_kernels(const Case&, const plan::Backend&, int threads);

/// In an order in which neighbours are of different families. `thorough`: more sizes of every family.
[[nodiscard]] std::vector<Case> sweep(bool thorough);
/// The same of sizes that keep a GPU busy, with some that do not.
[[nodiscard]] std::vector<Case> sweep_of_gpus(bool thorough);

}  // namespace rehearsal::exec::bench
