#pragma once
// Plays Compress, Recompress and Decompress: what a rank sends of its gradients, and the sum from what all have sent.

#include <functional>

#include "exec/host/compressors/compressor.hpp"
#include "exec/host/compressors/power_sgd.hpp"
#include "exec/host/compressors/shared_sums.hpp"
#include "exec/kernels/compute_device.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::exec {

/// All that it refers to must outlive it.
class CompressedSums {
 public:
  using Address = std::function<void*(plan::BufferIndex)>;
  CompressedSums(const plan::Program& program, const graph::Graph& graph, int rank, ComputeDevice& device)
      : program_(program), graph_(graph), role_(program.role(rank)), rank_(rank), device_(device) {}

  /// `seed` of the training, `step` from 0.
  struct StepDraw {
    std::uint64_t seed = 0;
    std::int64_t step = 0;
  };
  void play(const plan::Instruction&, const Address&, StepDraw) const;

 private:
  struct BufferData {
    plan::BufferIndex buffer;
    void* data;
  };
  /// A gradient that travels as two factors, or as it is.
  struct Factored {
    FactorTask task;
    DType dtype;
    std::int64_t element, bytes;  ///< bytes of an element, and of all
  };
  [[nodiscard]] Factored factored(plan::BufferIndex gradient, StepDraw) const;
  /// Different for every tensor, and for the ranks of a group where each draws by itself.
  [[nodiscard]] CompressorTask task_of(plan::BufferIndex gradient, int member, StepDraw) const;
  void play_factors(const plan::Instruction&, const Address&, StepDraw) const;
  void first_factors(const plan::Instruction&, const Address&, StepDraw) const;
  void second_factors(const plan::Instruction&, const Address&, StepDraw) const;
  void sums_of_factors(const plan::Instruction&, const Address&, StepDraw) const;
  void play_shares(const plan::Instruction&, const Address&) const;
  void write_own(const plan::Instruction&, const Address&, const SharedTask&, std::span<const std::int64_t> elements) const;
  void sum_own(const plan::Instruction&, const Address&, const SharedTask&, std::span<const std::int64_t> lengths) const;
  void compress(const plan::Instruction&, const Address&, StepDraw) const;
  void compress_and_keep(BufferData kept, const CompressorTask&, std::byte* gradient, std::byte* to) const;
  void decompress(const plan::Instruction&, const Address&, StepDraw) const;

  const plan::Program& program_;
  const graph::Graph& graph_;
  const plan::Role& role_;
  int rank_;
  ComputeDevice& device_;
};

}  // namespace rehearsal::exec
