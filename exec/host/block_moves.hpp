#pragma once
// Instructions that move elements between local tensors: Slice, Pack, Unpack, Accumulate. What goes where follows from the regions of their
// buffers.

#include <map>
#include <vector>

#include "exec/kernels/compute_device.hpp"
#include "plan/program/program.hpp"
#include "plan/sharding/copies.hpp"

namespace rehearsal::exec {

/// Copies from inputs[input] to outputs[output], in elements.
struct BlockMove {
  std::size_t input = 0, output = 0;
  plan::BlockCopy copy;
};

/// Of one rank. Regions depend on the micro-batch, so the copies of each are found once and kept.
class BlockMoves {
 public:
  BlockMoves(const plan::Program& program, int rank) : program_(program), role_(program.role(rank)), rank_(rank) {}

  /// `micro_batch` 0 in bodies that run once.
  [[nodiscard]] const std::vector<BlockMove>& of(const plan::Instruction&, int micro_batch);

 private:
  [[nodiscard]] std::vector<BlockMove> slice(const plan::Instruction&, const plan::Coordinates&) const;
  void pack(std::size_t redistribution, std::size_t input, const plan::Coordinates&, std::vector<BlockMove>&) const;
  void unpack(std::size_t redistribution, std::size_t output, const plan::Coordinates&, std::vector<BlockMove>&) const;

  const plan::Program& program_;
  const plan::Role& role_;
  int rank_;
  std::map<std::pair<const plan::Instruction*, int>, std::vector<BlockMove>> known_;
};

/// Performs a copy of elements of this size.
void run(const plan::BlockCopy&, std::size_t element_bytes, const void* from, void* to);
/// Adds elements to where they would be copied.
void add(const plan::BlockCopy&, const Addition&, const void* from, void* to);

}  // namespace rehearsal::exec
