#pragma once
// What the backward pass computes again instead of keeping it from the forward pass, found on any graph from what its operators say.

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/recompute/forward_results.hpp"
#include "plan/schedules/pipeline.hpp"

namespace rehearsal::plan {

/// The forward results that are dropped when the backward pass of their micro-batch begins. It makes them again from what is left, with
/// the choices, conversions and random numbers of the forward pass, when the first of its nodes wants them.
struct Recomputation {
  std::vector<bool> dropped;  ///< by tensor; empty: everything that is wanted is kept
  [[nodiscard]] bool any() const { return !dropped.empty(); }
  [[nodiscard]] bool drops(graph::TensorId t) const { return any() && dropped[graph::index(t)]; }
};

/// `recompute=full`. Keeps what crosses the cuts between segments of the forward pass, and drops the rest: cuts are where few bytes cross,
/// such that (bytes that cross them) x (micro-batches in flight) + (bytes of the fullest segment) are fewest. For a chain of n equal
/// layers these are sqrt(n) segments (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, section 4).
/// The last segment of a part whose backward pass follows at once is kept: dropping it would save nothing.
[[nodiscard]] Recomputation full_recomputation(const ForwardResults&, const Pipeline&);
/// `recompute=full:N`. Of every part the first `blocks` blocks keep what they take, and make the rest again: blocks are layers that follow
/// each other and are alike (graph/repeated_spans.hpp). Throws Refusal where the model has fewer.
[[nodiscard]] Recomputation block_recomputation(const ForwardResults&, int blocks);
/// Another choice, with full recomputation in the first `segments` segments of every part.
[[nodiscard]] Recomputation with_full_segments(Recomputation, std::size_t segments, const ForwardResults&, const Pipeline&);
/// Segments of the part that has most.
[[nodiscard]] std::size_t segment_count(const ForwardResults&, const Pipeline&);

/// `recompute=selective`. Keeps what products with weights make (matrices, convolutions) and drops what follows from them by operators
/// that cost little more than reading and writing memory: activations, normalizations, dropout, softmax, attention scores (Korthikanti et
/// al., "Reducing Activation Recomputation in Large Transformer Models", 2022, section 5). A result is dropped when that frees more than
/// keeping its operands costs, and when no product with weights lies between it and what is kept: else a chain of sums (a residual
/// stream) would be recomputed from its beginning.
[[nodiscard]] Recomputation selective_recomputation(const ForwardResults&);
/// The same, with only the first `count` of them dropped, those that save most bytes a second first.
[[nodiscard]] Recomputation selective_recomputation(const ForwardResults& results, std::size_t count);
[[nodiscard]] std::size_t selective_count(const ForwardResults&);

/// Least recomputation with which every stage's arena fits: of selective's results those that save most for their time, then full's
/// segments one by one. `arena`: bytes of a stage under a recomputation. Throws Refusal saying how many bytes are missing.
[[nodiscard]] Recomputation budgeted_recomputation(const ForwardResults&, const Pipeline&, std::int64_t budget,
                                                   const std::function<std::int64_t(int stage, const Recomputation&)>& arena);

}  // namespace rehearsal::plan
