#pragma once
// The operands and results of an instruction as its kernel sees them: where they are, their local types, which part of a whole they hold.

#include <cstddef>
#include <vector>

#include "exec/kernels/kernel.hpp"
#include "exec/play/local_memory.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::exec {

/// Of one rank. All that it refers to must outlive it.
class OperandViews {
 public:
  OperandViews(const plan::Program& program, const graph::Graph& graph, int rank, const LocalMemory& memory);

  /// Of the pass that is played: its micro-batch (0 in bodies that run once), the variant of shapes, the moment.
  struct Pass {
    int micro_batch = 0;
    std::size_t variant = 0;
    plan::Moment now;
  };
  [[nodiscard]] const graph::TensorType& type(plan::BufferIndex, std::size_t variant) const;
  void set(const plan::Instruction&, const Pass&);
  [[nodiscard]] std::span<const TensorView> inputs() const { return inputs_; }
  [[nodiscard]] std::span<const TensorView> outputs() const { return outputs_; }

 private:
  [[nodiscard]] TensorView view(plan::BufferIndex, const Pass&);
  [[nodiscard]] const graph::Shape& origin(plan::BufferIndex, int micro_batch);

  struct Origin {
    int micro_batch = -1;
    graph::Shape first;
  };
  const plan::Program& program_;
  const graph::Graph& g_;
  const plan::Role& role_;
  int rank_;
  const LocalMemory& memory_;
  std::vector<std::vector<graph::TensorType>> types_;  ///< by buffer, by variant
  std::vector<Origin> origin_of_;                      ///< by buffer: of the micro-batch that was asked for last
  std::vector<TensorView> inputs_, outputs_;
};

/// Copies in memory of the host of tensors that lie on a device.
class HostCopies {
 public:
  HostCopies(ComputeDevice& device, std::span<const TensorView> views);
  [[nodiscard]] std::span<const TensorView> views() const { return views_; }

 private:
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<TensorView> views_;
};

}  // namespace rehearsal::exec
