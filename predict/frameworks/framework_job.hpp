#pragma once
// A training step as a framework is asked to run it.

#include <optional>
#include <string>
#include <string_view>

#include "costmodel/framework.hpp"
#include "costmodel/precision.hpp"
#include "plan/plan.hpp"
#include "platforms/platform.hpp"
#include "predict/frameworks/expert_load.hpp"

namespace rehearsal::predict::frameworks {

/// What recipes say besides plan and framework.
struct Recipe {
  std::string optimizer = "adam";      ///< a row of graph::optimizer_table(); "none": no update
  double frozen_bytes = 0;             ///< of a weight of a block that is not trained (nf4: 0.53); 0: as the others
  bool chunked_loss = false;           ///< logits are made and used chunk by chunk, in one kernel with the loss
  bool fused_kernels = false;          ///< norms, positions, gates and loss are a kernel each (Liger, Unsloth), whatever the framework does
  bool update_in_backward = false;     ///< every weight is updated as soon as its gradient is there, which goes then
  std::optional<bool> fp8_gather;      ///< weights of fp8 products are gathered in 8 bits; left out: as the framework does
  bool keeps_gathered = false;         ///< ZeRO-3 that gathers parameters once a step (SHARD_GRAD_OP)
  std::optional<bool> fp32_reduction;  ///< sharded gradients are reduced in fp32; left out: as the framework does
  std::optional<bool> tensor_overlap;  ///< sums of tensor parallelism hide behind products; left out: as the framework does
  std::optional<bool> captured;        ///< a step replays one CUDA graph; left out: as the framework does
  std::optional<bool> fused_experts;   ///< experts' products gate and cast what is between them; left out: as the framework does
  /// Tokens travel to their experts and back beside another micro-batch's computation; left out: as the framework does.
  std::optional<bool> expert_overlap;
  /// A token travels once to every node where it has experts; left out: as the framework does.
  std::optional<bool> dispatches_by_node;
  ExpertLoad expert_load;             ///< tokens among experts
  int offloaded_blocks = 0;           ///< that offload=activations moves; 0: all
  bool parallel_blocks = false;       ///< attention and MLP share one reduction
  double attention_window = 0;        ///< tokens; 0: all
  double longest_document = 0;        ///< tokens, of those that share a sequence; 0: none do
  bool parameter_servers = false;     ///< gradients go to servers on all nodes and back
  bool channels_last = true;          ///< convolutions in the layout of the matrix units
  bool channels_last_single = false;  ///< the same for 32-bit tensors
  double power_limit = 0;             ///< watts a device may draw; 0: what its datasheet says
  bool stage_clocks = false;          ///< devices of stages that wait for others run at lower clocks
  bool momentum = true;               ///< sgd, lars and rmsprop keep one; PyTorch's do not unless they are told to
  /// A hyperparameter that is 0; empty: none is.
  [[nodiscard]] std::string_view without() const { return momentum ? "" : "momentum"; }
};

/// One optimizer step under a framework.
struct FrameworkJob {
  const platforms::Platform& platform;
  const costmodel::FrameworkProfile& profile;
  plan::Plan plan;         ///< `micro_batch` is not looked at
  std::string precision;   ///< as costmodel::precision_of() reads it
  double batch = 1;        ///< samples of the step, of all replicas
  double micro_batch = 1;  ///< samples; below 1: a sample is shared out among ranks
  int micro_batches = 1;   ///< of a replica in a step
  Recipe recipe;

  /// What is computed again: nothing where all but the last micro-batch are, and there is no other.
  [[nodiscard]] plan::RecomputeRule recomputed() const;
  /// Share of so many micro-batches of which that is computed again.
  [[nodiscard]] double recomputed_share(int all) const {
    return recomputed() == plan::RecomputeRule::FullExceptLast ? (all - 1.0) / all : 1;
  }

  /// The device of a group of nodes, and what it computes in.
  [[nodiscard]] const platforms::Device& device(std::size_t group = 0) const { return platform.nodes[group].device; }
  [[nodiscard]] costmodel::Precision precision_on(std::size_t group) const { return costmodel::precision_of(device(group), precision); }
};

/// How far element-wise operators share kernels, as FrameworkProfile::elementwise_fusion counts it.
[[nodiscard]] int elementwise_fusion(const FrameworkJob& job);
/// What a recipe's captured step changes.
struct StepCapture {
  costmodel::LaunchMode launch = costmodel::LaunchMode::Eager;
  bool fused_experts = false;       ///< gates and casts between the products of experts are part of these products
  bool overlapped_experts = false;  ///< tokens travel to their experts beside another micro-batch's computation
  /// The framework's recipes capture such a step in mxfp8, and the job computes in other narrow numbers.
  bool only_in_mxfp8 = false;
};
/// As the recipe says each, else as the framework does it for this precision and such a model: `experts`: transformer blocks with experts,
/// and no other layers.
[[nodiscard]] StepCapture capture_of(const FrameworkJob& job, bool experts);

}  // namespace rehearsal::predict::frameworks
