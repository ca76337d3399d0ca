#pragma once
// A model as the closed form sees it: few parts, each a run of forward nodes that repeats, with the rows of work of one rank.

#include <string>
#include <vector>

#include "costmodel/kernel_rows.hpp"

namespace rehearsal::predict::frameworks {

/// Nodes [first, first + length) and their repetitions right behind: a transformer block, a residual block, or what stands between.
struct Span {
  std::size_t first = 0, length = 0;
  int repeats = 1;
};

/// Activations that one rank keeps for the backward pass, bytes.
struct Kept {
  double replicated = 0;  ///< of whole tensors: divided by tp under sequence parallelism only
  double split = 0;       ///< of tensors split by tp (already divided)
  double attention = 0;   ///< of the attention core: what selective recomputation drops (already divided)
  [[nodiscard]] double all() const { return replicated + split + attention; }
};

/// One repetition of a span on one rank, for one micro-batch.
struct Part {
  Span span;
  bool repeated = false;  ///< a block of a chain of equal ones: what recomputation and sharding work on
  costmodel::KernelRows forward, backward;
  double parameters = 0;  ///< elements on this rank, tensor parallelism applied
  double parameter_tensors = 0;
  double reductions = 0;             ///< tensor-parallel all-reduces of one forward pass
  double reduction_bytes = 0;        ///< of one of them
  double key_value_bytes = 0;        ///< keys and values of this rank: what context parallelism passes round
  double experts_bytes = 0;          ///< one all-to-all of expert parallelism
  double boundary_bytes = 0;         ///< result of the last node: what a pipeline sends
  double flops = 0;                  ///< useful forward FLOPs of the whole replica
  costmodel::KernelRow last_matmul;  ///< the last dense product: what early-stopping recomputation leaves out
  Kept kept;
};

struct ModelRows {
  std::vector<Part> parts;
  bool image = false;      ///< has convolutions
  bool recurrent = false;  ///< has recurrent layers
  bool fused_attention = false;
  double tokens_per_sample = 0;  ///< positions of the longest sequence input; 0: not a sequence model
  double logits = 0;             ///< elements of the result on this rank
  double output_bytes_kept = 0;
};

}  // namespace rehearsal::predict::frameworks
