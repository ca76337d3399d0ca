#pragma once
// Which repetitions of which parts of a model each chunk of a pipeline runs.

#include <vector>

#include "predict/frameworks/timing.hpp"

namespace rehearsal::predict::frameworks {

/// Repetitions [first, first + count) of a part.
struct Piece {
  std::size_t part = 0;
  int first = 0, count = 1;
  Recomputed recompute = Recomputed::AsPlanned;
};
/// In the order of the forward pass.
using Chunk = std::vector<Piece>;

/// A chunk for each of `chunks` places in the order in which a micro-batch passes them. A chain of equal blocks is split evenly where
/// that is possible, as frameworks do: what stands before it goes to the first chunk, what stands behind it to the last one. Otherwise
/// cuts are where the costliest chunk is cheapest. `slowness`: relative time of a chunk's device, by chunk.
/// Throws Refusal when there are fewer pieces than chunks.
[[nodiscard]] std::vector<Chunk> cut_into_chunks(const StepTimer&, const std::vector<double>& slowness);

/// The same chunk with the first `blocks` repetitions of repeated parts as the plan has them, and everything behind them kept.
[[nodiscard]] Chunk recomputing_first(int blocks, const Chunk&, const ModelParts&);

/// Of a chunk.
[[nodiscard]] Weights weights_of(const ModelParts&, const Chunk&);
[[nodiscard]] double trained_tensors_of(const ModelParts&, const Chunk&);

}  // namespace rehearsal::predict::frameworks
