#pragma once
// How a framework runs a training step, as data: costmodel/profiles/*.json (schema beside them). Nothing here belongs to one model,
// machine or published run.

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/platform.hpp"

namespace rehearsal::costmodel {

enum class LaunchMode : std::uint8_t { Eager, Static, Captured };          ///< Python per kernel, graph executor, CUDA graph
enum class Coordination : std::uint8_t { None, Ddp, Horovod };             ///< fixed cost of a data-parallel step
enum class AttentionKernel : std::uint8_t { Plain, Flash, FlashTuned };    ///< score matrix in memory, fused, fused and tuned by vendor
enum class SequencePacking : std::uint8_t { None, Unpadded, LengthBins };  ///< what is computed of padded sequences
enum class AllocatorKind : std::uint8_t { Deepspeed, Pytorch, Static };    ///< whose reserve a device reading includes

/// What people train: what they run it with differs.
enum class ModelKind : std::uint8_t {
  Decoder,         ///< predicts the next token of a sequence
  ShardedDecoder,  ///< the same, its parameters sharded over the replicas and not split otherwise (ZeRO-3, FSDP)
  Other
};
inline constexpr std::size_t kModelKinds = 3;

/// Bytes per parameter of a mixed-precision step.
struct StateBytes {
  double weights = 2, gradients = 2, optimizer = 12;
};

struct FrameworkProfile {
  std::string name, description, source;
  std::vector<std::string> recognised_by;  ///< parts of a record's framework or source text, lower case
  /// Keys of a plan that it has besides dp and micro_batch: tp, pp, cp, ep, zero, interleave, ...; empty: all of them.
  std::vector<std::string> parallelism;
  std::map<std::string, std::vector<std::string>> values;               ///< predicted of a plan's keys; left out: all that there are
  std::map<std::string, std::vector<std::string>> values_in_pipelines;  ///< the same, where the plan has stages
  int elementwise_fusion = 0;    ///< 0 operators one by one, 1 norms and softmax fused, 2 chains fused
  int normalization_fusion = 0;  ///< 0 none, 1 activation in the backward pass, 2 activation and addition
  LaunchMode launch = LaunchMode::Eager;
  bool host_bound = false;            ///< the launching thread can be slower than the device
  bool channels_last = true;          ///< convolutions run in the layout of the matrix units
  bool channels_last_single = false;  ///< the same for 32-bit tensors, which tf32 units want in that layout too
  bool volumes_transposed = false;    ///< tensors of volumes are transposed around every convolution
  bool gradient_overlap = true;       ///< gradients are reduced during the backward pass
  bool tuned_overlap = false;
  bool gathers_in_computing_type = false;       ///< sharded fp32 parameters are gathered in 16 bits, by PyTorch FSDP's mixed precision
  bool tensor_overlap = false;                  ///< tensor-parallel communication is pipelined with its GEMM
  bool backward_tensor_overlap = false;         ///< all-reduce of the input gradient beside the weight gradient
  bool experts_need_sequence_parallel = false;  ///< refuses mixtures of experts under tp whose tokens are not split by it too
  Coordination coordination = Coordination::Ddp;
  AttentionKernel attention = AttentionKernel::Plain;
  bool attention_needs_hopper = false;  ///< fused attention on Hopper and newer only
  SequencePacking packing = SequencePacking::None;
  bool dropout = true;  ///< default recipes drop activations and attention weights
  bool fused_optimizer = true;
  bool checkpoint_stops_early = false;  ///< recomputation ends with the last tensor that is needed
  bool sequence_parallel = false;       ///< default with tensor parallelism
  bool dispatches_by_node = false;      ///< a token travels once to every node where it has experts (DeepEP, HybridEP)
  bool launches_each_expert =
      false;  ///< products of experts are a library's calls, one after the other (Transformer Engine's GroupedLinear)
  /// Transformers with experts in mxfp8 replay one CUDA graph a step; products of experts compute their gates; tokens travel beside
  /// computation.
  bool captures_experts = false;
  bool interleaves = false;               ///< default recipes cut stages into chunks
  bool tied_embedding_reduction = false;  ///< first and last stage add their embedding gradients
  bool gathers_fp8 = false;               ///< sharded weights of fp8 products with a scale per tensor are gathered in 8 bits
  bool gathers_layerwise = true;          ///< sharded parameters are prefetched a layer ahead
  bool sharded_after_all_reduce = false;  ///< ZeRO-1 reduces whole gradients, then gathers parameters
  bool reduces_in_fp32 = false;           ///< sharded gradients of a 16-bit step are reduced in fp32
  bool checkpoints_stages = false;        ///< full recomputation keeps the input of a whole stage, not that of every block
  bool reports_total_memory = false;      ///< its publications add up the memory of all devices
  /// Gradients have their memory all the time: buffers of their own, or zeroed in place (PyTorch before 2.0). Otherwise it is theirs from
  /// the backward pass to the update.
  bool gradient_buffers = false;
  bool fused_accumulation = false;    ///< products add to the gradients of earlier micro-batches as they write
  bool masters_cast = true;           ///< 16-bit copies of fp32 weights are made every step under autocast
  bool pure_16bit = false;            ///< weights and moments of a 16-bit job that is no autocast have 16 bits, too
  bool casts_norms = false;           ///< autocast computes layer norms in fp32, between two conversions
  bool predicts_all = false;          ///< encoders guess every token of a sequence, not those alone that were masked
  bool composed_optimizer = false;    ///< Adam and LAMB are written as operators of the graph, parameter by parameter
  double composed_instance_norm = 1;  ///< passes of instance normalisation over those of one kernel
  double composed_instance_norm_16bit = 1;
  bool keeps_quantised_operands = false;  ///< operands of fp8 products wait for the backward pass in 8 bits
  bool keeps_quantised_gates = false;     ///< so do both factors of a gated activation
  bool keeps_quantised_weights = false;   ///< weights of blocks that an fp8 job does not train have 8 bits
  bool weighs_gated_rows = false;         ///< how much an expert counts is multiplied into its gated rows, before its last product
  bool whole_experts = true;              ///< ranks of tp may have experts of their own instead of parts of each
  /// Blocks with weights that are not trained keep what they read, and its gradient, until the backward pass ends (PyTorch's FSDP1).
  bool holds_inputs_of_frozen = false;
  bool adapters_in_fp32 = false;  ///< low-rank adapters have 32 bits, and each converts what it reads (PEFT: autocast_adapter_dtype)
  bool keeps_no_scores = false;   ///< attention computes its scores again for the backward pass, also where it is as slow as plain kernels
  /// Releases for Blackwell compile the loss with the model, and the allocator's segments grow (torchtitan of 2025: compile.components,
  /// run_train.sh).
  bool newer_on_blackwell = false;
  double logit_bytes_16bit = 10;  ///< of a logit and what the loss makes of it: 2, an fp32 copy and its softmax, unless it is fused
  double gradient_bytes_fp16 = 2, gradient_bytes_bf16 = 2, gradient_bytes_amp = 4;
  double update_copies = 0;    ///< of the gradients, that an update of all parameters at once makes (torch.optim with foreach)
  double bucket_bytes = 25e6;  ///< of gradients that are summed together
  StateBytes state;
  /// The framework of which this is a release, or itself.
  [[nodiscard]] const std::string& product() const { return release_of.empty() ? name : release_of; }
  /// Whether it has a key of a plan at all.
  [[nodiscard]] bool has_key(std::string_view key) const {
    return parallelism.empty() || std::ranges::find(parallelism, key) != parallelism.end();
  }
  /// Whether a plan's key may have the value.
  [[nodiscard]] bool has(const std::string& key, std::string_view value) const { return lists(values, key, value); }
  /// The same for a plan with stages.
  [[nodiscard]] bool has_in_pipelines(const std::string& key, std::string_view value) const {
    return has(key, value) && lists(values_in_pipelines, key, value);
  }
  /// Of all keys that are not listed, every value. `full:N` stands for full: with any number.
  [[nodiscard]] static bool lists(const std::map<std::string, std::vector<std::string>>& values, const std::string& key,
                                  std::string_view value);
  AllocatorKind allocator = AllocatorKind::Pytorch;
  /// What tensor parallelism gathers of a split sequence waits whole for the backward pass, unless products gather it piece by piece
  /// themselves (DTensor's redistribution, and asynchronous tensor parallelism).
  bool keeps_gathered_inputs = false;
  std::string default_precision;  ///< of its recipes; "narrowest": what the device has, fp8 for decoders; empty: bf16, images fp32
  /// Devices on which models of a kind are usually run so: beginnings of their generation or of their name (named_by()); "" stands for
  /// every generation.
  std::array<std::vector<std::string>, kModelKinds> usual_on;
  /// Keys of a plan that its recipes set, and the values: taken where a plan says nothing of them and does not fit without them.
  std::map<std::string, std::string> usual_keys;
  std::string release_of;  ///< the profile that says all of it but what this one says itself; empty: none
  std::string successor;   ///< the profile of the releases that Hopper and newer devices run; empty: this one
};

/// How closely a beginning of a name says which device is meant: that of a product more closely than that of a generation, a long one more
/// closely than a short one.
struct NameMatch {
  bool product = false;
  std::size_t length = 0;
  auto operator<=>(const NameMatch&) const = default;
};
/// The closest; nothing where none is a beginning of the device's name or generation.
[[nodiscard]] std::optional<NameMatch> named_by(const std::vector<std::string>& beginnings, const platforms::Device&);

/// Throws BadInput naming `where` and the key that is wrong.
[[nodiscard]] FrameworkProfile framework_from_json_text(const std::string& text, const std::string& where);
/// All profiles that travel inside the library, in alphabetical order.
[[nodiscard]] std::span<const FrameworkProfile> framework_profiles();
/// The profile of our own execution.
[[nodiscard]] const FrameworkProfile& own_framework();
/// nullptr when there is none of that name, in whatever spelling.
[[nodiscard]] const FrameworkProfile* find_framework(std::string_view name);
/// Throws BadInput naming `where`, the nearest name and all of them.
[[nodiscard]] const FrameworkProfile& known_framework(const std::string& where, std::string_view name);
/// What users of a device run a kind of models with: our own execution on CPUs, which it has kernels for, else what profiles say of its
/// generation.
[[nodiscard]] const FrameworkProfile& usual_framework(const platforms::Device&, ModelKind);
/// The profile whose longest mark stands in `text` (lower case); nullptr: none does.
[[nodiscard]] const FrameworkProfile* recognise_framework(std::string_view text);

}  // namespace rehearsal::costmodel
