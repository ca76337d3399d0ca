#pragma once
// A model as one rank of a framework runs it: few parts, each a run of forward nodes that repeats, with the kernels of its passes and the
// collectives that they wait for.

#include <optional>
#include <string_view>
#include <vector>

#include "costmodel/collective_kind.hpp"
#include "costmodel/kernel_rows.hpp"
#include "predict/frameworks/framework_job.hpp"

namespace rehearsal::predict::frameworks {

/// Ranks that exchange something within a pass.
enum class ExchangeAxis : std::uint8_t { Tensor, Context, Expert };

/// A collective within a pass: a sum of tensor parallelism, tokens on their way to their experts, keys and values that go round.
struct Exchange {
  costmodel::CollectiveKind kind = costmodel::CollectiveKind::AllReduce;
  ExchangeAxis axis = ExchangeAxis::Tensor;
  double bytes = 0;  ///< of the whole vector, as costmodel::CollectiveLibrary counts it
};

/// One kernel or one exchange of a pass.
struct PassStep {
  costmodel::CostRow row;
  std::optional<Exchange> exchange;  ///< then there is no row
  std::uint32_t node = 0;            ///< offset in the part's span
  bool weight_gradient = false;      ///< nothing in the backward pass waits for it
  bool once_a_step = false;          ///< by the first micro-batch, for all of them
};

/// Activations that one rank keeps for the backward pass, bytes.
struct Kept {
  double others = 0;
  double attention = 0;  ///< of the attention core: what selective recomputation drops
  [[nodiscard]] double all() const { return others + attention; }
};

/// Elements of weights, and what the update of those takes that are trained.
struct Weights {
  double all = 0, trained = 0;
  double state = 0;          ///< numbers that the optimizer keeps of them
  double moved = 0;          ///< numbers that the update reads and writes
  double product_flops = 0;  ///< of matrix products in the update

  Weights& operator+=(const Weights& more) { return *this = *this + more; }
  friend Weights operator+(const Weights& a, const Weights& b) {
    return {a.all + b.all, a.trained + b.trained, a.state + b.state, a.moved + b.moved, a.product_flops + b.product_flops};
  }
  friend Weights operator-(const Weights& a, const Weights& b) { return a + -1 * b; }
  friend Weights operator*(double n, const Weights& w) { return {n * w.all, n * w.trained, n * w.state, n * w.moved, n * w.product_flops}; }
};

/// One repetition of a span on one rank, for one micro-batch.
struct Part {
  std::size_t span = 0;      ///< of the folded model
  int first_repetition = 0;  ///< of the span; 1: further steps of a recurrence, whose weights the part before has, its first step
  int repeats = 1;
  bool repeated = false;                    ///< a block of a chain of equal ones: what recomputation and sharding work on
  std::vector<PassStep> forward, backward;  ///< in the order in which they run
  std::vector<Weights> weights_of_node;     ///< on this rank, that a node of the span is the first to use, by offset
  Weights weights;                          ///< their sum
  Weights common_weights;                   ///< that all repetitions read: `weights` has the share of one of them
  Weights expert_weights;                   ///< of these, what the ranks of expert parallelism share out
  Weights shared_weights;                   ///< that an earlier part uses, too: stages of a pipeline have a copy each
  double trained_tensors = 0;
  double boundary_bytes = 0;                  ///< result of the last node: what a pipeline sends
  double flops = 0;                           ///< useful ones of a step, of one sample: forward and backward
  double computed_flops = 0;                  ///< what is left of them where transforms of convolutions save some
  std::optional<std::uint32_t> last_product;  ///< node of the last dense product: recomputation that stops early leaves it out
  Kept kept;
  /// Gradients that the backward pass of one node has at once, of its results and of what it read: at the node where they are most, bytes.
  double widest_gradients = 0;

  [[nodiscard]] Weights read_weights() const { return weights + (1 - 1.0 / repeats) * common_weights; }
};

struct ModelParts {
  std::vector<Part> parts;
  bool image = false;      ///< has convolutions
  bool recurrent = false;  ///< has recurrent layers
  bool fused_attention = false;
  double tokens_per_sample = 0;  ///< positions of the longest sequence input; 0: not a sequence model
  double expert_choices = 0;     ///< experts of a token; 0: none
  double used_slots = 1;         ///< share of the rows of all experts that tokens are in: no framework here computes empty ones
  double expert_load = 1;        ///< tokens of the rank whose experts have most of them, over the rows of a mean one
  StepCapture capture;           ///< how the kernels of such a model are launched and fused
  double logits = 0;             ///< elements of the result on this rank

  /// The published runs by which predictions of its time are judged. State-space layers convolve tokens, and are no images.
  [[nodiscard]] std::string_view time_group() const {
    return recurrent ? "recurrent" : image && tokens_per_sample == 0 ? "image" : "transformer";
  }
};

}  // namespace rehearsal::predict::frameworks
