#pragma once
// What a rank keeps from step to step, seen from outside: for checkpoints, export and evaluation.

#include <optional>
#include <span>
#include <vector>

#include "exec/play/local_memory.hpp"
#include "graph/graph.hpp"

namespace rehearsal::exec {

/// The elements of a local tensor, in their format.
struct KeptResult {
  graph::TensorType type;
  plan::Format format = plan::Format::Plain;
  std::vector<std::byte> bytes;
};

/// Blocks are counted by age: updates before the last of `done` ones. All that it refers to must outlive it.
class StoredTensors {
 public:
  StoredTensors(const plan::Role& role, const LocalMemory& memory, ComputeDevice& device) : role_(role), memory_(memory), device_(device) {}

  /// nullptr when this rank does not hold it.
  [[nodiscard]] const plan::Buffer* buffer(graph::TensorId) const;
  [[nodiscard]] std::vector<graph::TensorId> all() const;
  void read(graph::TensorId, std::int64_t updates, std::byte* to) const;
  /// Wherever this rank has it.
  void write(graph::TensorId, std::int64_t updates, std::span<const std::byte> block);
  /// A result of a type that lasts to the end of the step.
  [[nodiscard]] std::optional<KeptResult> result(graph::TensorId, const graph::TensorType&, const plan::Moment&) const;

 private:
  const plan::Role& role_;
  const LocalMemory& memory_;
  ComputeDevice& device_;
};

}  // namespace rehearsal::exec
