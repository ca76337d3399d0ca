#pragma once
// Places the nodes of one pipeline stage, on the blocks of one rank, with the conversions, messages, sums and recomputation that they need.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "plan/compressors.hpp"
#include "plan/low_rank.hpp"
#include "plan/lowering/role_draft.hpp"

namespace rehearsal::plan {

/// Its public functions are passes of role_passes.cpp, in that order.
class RoleBuilder : public RoleDraft {
 public:
  RoleBuilder(const LoweringContext& context, const RolePlace& place);
  ~RoleBuilder();
  RoleBuilder(const RoleBuilder&) = delete;
  RoleBuilder& operator=(const RoleBuilder&) = delete;
  /// Which gradients travel together, and where each of them goes.
  void plan_gradients();
  /// Nodes of the stage in their bodies, with all that their operands ask for and all that follows from their results.
  void place_forward();
  void place_backward();
  void place_weight_gradients();  ///< of schedules that let them wait
  void add_up_both_copies();      ///< of a bidirectional pipeline
  /// Ranks share out matrices to decompose, and send each other what they make of them.
  void spread_decompositions();
  void place_updates();
  void exchange_updated_parameters();
  void report_loss();
  void meet();  ///< of replicas that train by themselves
  /// No gather joins a message any more.
  void close_gathers();
  /// overlap=off: the first sum of the update waits for the end of the backward passes.
  void hold_sums_back();

 private:
  struct Bucket {
    std::vector<graph::TensorId> gradients;
    BufferIndex buffer = kNoBuffer;
    std::size_t missing = 0;
    std::vector<std::size_t> axes;  ///< of the sharding, over which it is summed
    std::uint16_t last = 0;         ///< body that makes the last of the gradients so far
  };

  // Nodes (role_builder.cpp)
  enum class NodesOfPass { Passes, WeightGradients, Updates };
  [[nodiscard]] std::size_t first_of_backward() const;
  void place_nodes(std::size_t begin, std::size_t end, NodesOfPass group);
  [[nodiscard]] std::optional<std::uint16_t> body_in(graph::NodeId, NodesOfPass) const;
  void forget_for_backward();
  [[nodiscard]] bool is_forgotten(const Key&) const;
  void recompute(graph::TensorId, std::uint16_t body);
  [[nodiscard]] bool is_stashed(graph::NodeId) const;
  void restore_results(graph::NodeId, std::uint16_t body);

  // Matrices that one rank decomposes for all (spread_decompositions.cpp)
  [[nodiscard]] std::vector<graph::NodeId> decompositions_alike() const;
  void place_what_they_read(const std::vector<graph::NodeId>& decompositions);
  void broadcast(graph::NodeId decomposition, std::int32_t collective, Dependency behind);

  // Attention whose keys go round (ring_attention.cpp)
  class RingPass;
  bool lower_in_ring(graph::NodeId, std::uint16_t body);
  void attend_in_ring(const AttentionRing&, std::uint16_t body);
  [[nodiscard]] BufferIndex kept_result(graph::TensorId, std::uint16_t body);

  // Attention that is one kernel (attention.cpp)
  struct FusedKernel {
    graph::NodeId node;  ///< whose instruction it is
    std::string_view op;
    const graph::Attributes& attributes;
    const std::vector<Use>& operands;
    std::vector<graph::TensorId> results;  ///< None: not wanted
  };
  bool lower_in_kernel(graph::NodeId, std::uint16_t body);
  void attend_at_once(const FusedAttention&, std::uint16_t body);
  void emit_fused(const FusedKernel&, std::uint16_t body);

  // Results that wait elsewhere (stashes.cpp)
  void stash_results(graph::NodeId, std::uint16_t body);
  void stash(graph::TensorId, std::uint16_t body);
  void restore(graph::TensorId, std::uint16_t body);
  void restore_ahead(graph::TensorId, std::uint16_t body);
  [[nodiscard]] bool lives_on_host(graph::TensorId stored) const;
  BufferIndex brought_from_host(BufferIndex stored, std::uint16_t body);
  void put_back(graph::TensorId updated, BufferIndex, std::uint16_t body);
  std::uint32_t emit_move(InstructionKind, BufferIndex from, BufferIndex to, std::uint16_t body);
  [[nodiscard]] int conversion_into_storage(graph::TensorId) const;  ///< index into the conversions; -1: none
  void lower_node(graph::NodeId, std::uint16_t body);
  void lower_view(graph::NodeId, std::uint16_t body);
  void lower_kernel(graph::NodeId, std::uint16_t body);
  struct OfferRequest {
    const graph::OpSchema& schema;
    const graph::Attributes& attributes;
    const std::vector<BufferIndex>& inputs;
  };
  /// Results may be nullptr: not wanted.
  [[nodiscard]] KernelOffer offer_for(const OfferRequest&, const std::vector<const Buffer*>& results) const;
  void bring_into_formats(graph::NodeId, std::vector<BufferIndex>& inputs, const std::vector<Format>&, std::uint16_t body);
  [[nodiscard]] BufferIndex in_format_of(Use, BufferIndex, Format, std::uint16_t body);
  [[nodiscard]] BufferIndex place_result(graph::TensorId, Buffer);
  struct CallPlace {
    std::vector<BufferIndex> inputs;
    std::uint16_t body;
    When when;
  };
  /// Of a row of the operator table, on behalf of a node; `op` empty: the node's own, with its attributes.
  std::uint32_t emit_kernel_of(graph::NodeId, std::string_view op, graph::Attributes, CallPlace, const std::vector<BufferIndex>& outputs);
  void set_kernel(Instruction&, const KernelOffer&, std::string_view op);
  void set_attributes(Instruction&, graph::Attributes);
  std::uint32_t emit(std::uint16_t body, Instruction instruction);

  // Weights of several ages, and of two copies (versions.cpp, bidirectional.cpp)
  [[nodiscard]] int ahead() const { return c_.pipeline.schedule->ahead(stage_, c_.pipeline.shape); }
  [[nodiscard]] int delay() const { return c_.pipeline.schedule->weight_versions(stage_, c_.pipeline.shape) - 1; }
  [[nodiscard]] BufferIndex version_of(BufferIndex stored, WeightVersion);
  void refuse_crossing(const Instruction&, std::uint16_t body) const;
  void refuse_ages(graph::TensorId shared, int stage, int other) const;

  // Operands (operands.cpp)
  [[nodiscard]] BufferIndex operand(graph::NodeId, std::size_t index, std::uint16_t body);
  [[nodiscard]] BufferIndex converted_operand(graph::NodeId, std::size_t index, std::uint16_t body);
  [[nodiscard]] BufferIndex in_format(BufferIndex, const Key&, Format, std::uint16_t body);
  BufferIndex input_block(graph::TensorId, graph::NodeId user, std::size_t index, std::uint16_t body);
  BufferIndex converted(int index, BufferIndex source, std::uint16_t body);
  [[nodiscard]] bool is_gathered_once(const Conversion&) const;
  void keep_for_backward(BufferIndex);
  BufferIndex apply_step(const Conversion&, const ConversionStep&, BufferIndex source, std::uint16_t body);
  BufferIndex accumulated(graph::TensorId, BufferIndex source, std::uint16_t body);
  void after_production(graph::NodeId, std::uint16_t body);

  // Conversions (redistribute.cpp)
  struct LocalStep {
    InstructionKind kind;
    std::size_t axis;
  };
  struct PackingStep {
    InstructionKind kind;
    std::int32_t redistribution;
  };
  struct SumPlace {
    std::size_t mesh_axis;
    std::uint16_t body;
    When when;
    graph::LabelKind reduction = graph::LabelKind::Sum;
  };
  [[noreturn]] void refuse_in_time(const Conversion&, const ConversionStep&) const;
  void refuse_unless_reducible(const Conversion&, const ConversionStep&) const;
  [[nodiscard]] Buffer after_step(const Conversion&, const ConversionStep&, BufferIndex source, std::uint16_t body);
  BufferIndex cut(LocalStep, BufferIndex source, Buffer target, std::uint16_t body);
  [[nodiscard]] BufferIndex in_format(BufferIndex, Format, std::uint16_t body);
  BufferIndex plain(BufferIndex, std::uint16_t body);
  BufferIndex summed(const Conversion&, std::span<const ConversionStep>, BufferIndex source, std::uint16_t body);
  [[nodiscard]] std::size_t sums_together(const std::vector<ConversionStep>&, std::size_t first) const;
  [[nodiscard]] std::vector<std::size_t> joint_axes(const std::vector<std::size_t>& axes) const;
  BufferIndex copy_of(BufferIndex, std::uint16_t body);
  [[nodiscard]] bool is_wanted_in_parts(graph::TensorId) const;
  BufferIndex redistributed(const ConversionStep&, BufferIndex source, BufferIndex target, std::uint16_t body);
  [[nodiscard]] bool every_rank_has(const ConversionStep&, BufferIndex source, const Buffer& target) const;
  void store_converted(graph::TensorId, BufferIndex source, std::uint16_t body);
  BufferIndex copy_into(BufferIndex source, BufferIndex target, std::uint16_t body);
  [[nodiscard]] Buffer message_vector(const Redistribution&) const;
  std::uint32_t emit_copy(PackingStep, std::vector<BufferIndex> from, std::vector<BufferIndex> to, std::uint16_t body);
  std::uint32_t emit_collective(const ConversionStep&, std::int32_t redistribution, std::vector<DealtOut>, BufferIndex vector,
                                std::uint16_t body);
  std::uint32_t emit_collective(CollectiveInfo, BufferIndex vector, graph::TensorId, SumPlace);
  void all_reduce(BufferIndex, graph::TensorId, SumPlace);
  [[nodiscard]] std::string algorithm(CollectiveKind, std::size_t mesh_axis, std::int64_t bytes) const;
  [[nodiscard]] std::string quickest(CollectiveKind, std::size_t mesh_axis, std::int64_t bytes) const;

  [[nodiscard]] BufferIndex stored_buffer(graph::TensorId);

  // Gradients (gradients.cpp)
  void add_to_bucket(graph::TensorId);
  [[nodiscard]] bool is_summed_only(graph::TensorId gradient) const;
  void gradient_produced(graph::TensorId, BufferIndex, std::uint16_t body);
  [[nodiscard]] bool is_for_update(const Conversion&) const;  ///< of this stage alone
  void reduce_bucket(std::size_t index, std::uint16_t body);

  // Gradients that are sharded (sharded_gradients.cpp)
  class DealtGradients;
  [[nodiscard]] bool travels_alone(const Dealing&, DType) const;

  // Parameters that are stored in parts (gathered_parameters.cpp)
  class GatheredParameters;
  struct Transfer {
    BufferIndex from, to;
  };

  // Gradients in fewer bits on their way than they are summed in (narrow_sums.cpp)
  [[nodiscard]] bool is_wide_sum(BufferIndex) const;
  [[nodiscard]] bool reads_sums(Use) const;
  [[nodiscard]] BufferIndex rounded_sum(BufferIndex sum, std::uint16_t body);
  [[nodiscard]] bool travels_narrowly(BufferIndex) const;
  [[nodiscard]] BufferIndex narrowed(BufferIndex wide, std::uint16_t body, When when);
  void widen(BufferIndex narrow, BufferIndex wide, std::uint16_t body);
  void cast(BufferIndex from, BufferIndex to, std::uint16_t body, When when);
  void widen_bucket(std::size_t bucket, std::uint16_t body);

  // Gradients of which ranks gather what a compressor leaves (compressed_sums.cpp)
  struct Compressed {
    BufferIndex vector = kNoBuffer;
    std::int32_t collective = -1;
    std::vector<BufferIndex> parts;  ///< gradients, before and behind the sum
    std::vector<BufferIndex> kept;   ///< of those that travel as two factors; of the own share of a sum
    std::size_t mesh_axis = 0;
  };
  [[nodiscard]] bool travels_compressed(graph::TensorId) const;
  void require_compressible(BufferIndex gradient) const;
  [[nodiscard]] BufferIndex kept_of(BufferIndex gradient, std::int64_t elements);
  /// Of the next collective.
  [[nodiscard]] Instruction compressing(InstructionKind, graph::TensorId, SumPlace) const;
  [[nodiscard]] BufferIndex compressed_vector(const std::vector<BufferIndex>& parts, int ranks);
  /// `whole` has all of the parts.
  [[nodiscard]] Compressed sum_compressed(BufferIndex whole, std::vector<BufferIndex> parts, SumPlace place);
  [[nodiscard]] Compressed gather_compressed(std::vector<BufferIndex> parts, SumPlace place);
  void decompress(const Compressed&, std::uint16_t body);
  void decode(const Compressed&, std::uint16_t body);
  // The same of those of which ranks sum two factors (factored_sums.cpp)
  [[nodiscard]] LowRankFactors factors(BufferIndex gradient) const;
  [[nodiscard]] BufferIndex factor_vector(const std::vector<BufferIndex>& parts, bool second);
  [[nodiscard]] Compressed sum_first_factors(std::vector<BufferIndex> parts, SumPlace place);
  void sum_second_factors(const Compressed&, std::uint16_t body);
  // And of those of which each rank sums a share (shared_sums.cpp)
  [[nodiscard]] Compressed sum_shares(std::vector<BufferIndex> parts, SumPlace place);
  [[nodiscard]] BufferIndex vector_of_bytes(std::string name, std::int64_t bytes);
  std::int32_t exchange_bytes(CollectiveKind, BufferIndex vector, graph::TensorId, SumPlace place);
  [[nodiscard]] Compressed gather_sum(BufferIndex sent, std::vector<BufferIndex> parts, SumPlace place, const SharedBlocks&);
  // And of those that become Adam's first moments before they travel (compressed_moments.cpp)
  void moments_in_place_of(const std::vector<BufferIndex>& parts, SumPlace place);
  [[nodiscard]] const graph::TrainedParameter& updated_by_adam(BufferIndex gradient) const;
  [[nodiscard]] std::optional<graph::Attributes> update_of_moments(graph::NodeId) const;
  [[nodiscard]] std::size_t axis_of_compressed(graph::TensorId, const std::vector<std::size_t>& mesh_axes) const;

  // Replicas that train by themselves (meetings.cpp)
  /// What replicas make equal when they meet, and the node on whose behalf.
  struct Common {
    BufferIndex buffer = kNoBuffer;
    graph::NodeId node = graph::NodeId::None;
    bool trained = false;
  };
  [[nodiscard]] std::size_t axis_of_replicas() const;
  [[nodiscard]] bool replicas_part() const;
  [[nodiscard]] bool is_of_parameter(graph::TensorId gradient) const;
  void scale_to_own(BufferIndex gradient, graph::NodeId, SumPlace);
  void sum_within_replica(BufferIndex gradient, graph::TensorId, std::vector<std::size_t> axes, SumPlace);
  [[nodiscard]] std::vector<Common> common_to_replicas() const;
  [[nodiscard]] BufferIndex kept_beside(const Common& weights, const std::string& what, MemoryCategory);
  struct MeetingPlace {
    std::uint16_t body;
    graph::TensorId tensor;    ///< on whose behalf
    std::int32_t vector = -1;  ///< of a center
  };
  [[nodiscard]] bool is_batch_statistic(graph::TensorId) const;
  void scale_to_all(BufferIndex sum, graph::TensorId, SumPlace, std::vector<std::size_t>& axes);
  void blend(graph::NodeId, BufferIndex a, double ca, BufferIndex b, double cb);
  void refuse_other_meetings() const;
  void meet_by(std::string_view algorithm, CollectiveKind, BufferIndex, MeetingPlace);
  void exchange_with_center(const std::vector<Common>&, const std::vector<BufferIndex>& center, CollectiveKind, std::uint16_t body);
  void prepare_additions(const std::vector<Common>&, const std::vector<BufferIndex>& center);
  void meet_at_center(const std::vector<Common>&);
  void gossip(const std::vector<Common>&);
  void average(const Common&);
  // Whose ways are added adaptively (adaptive_sums.cpp)
  struct Way {
    BufferIndex own, met, both;  ///< both: that of this rank and of its partner, the first half being `first`
    BufferIndex first, products;
    graph::NodeId node;
  };
  [[nodiscard]] Way way_of(const Common&);
  void add_ways_adaptively(const std::vector<Common>&);
  void exchange_ways(const Way&, int distance);
  void add_both(const Way&);

  // Messages between stages (messages.cpp)
  void send_results(graph::NodeId, std::uint16_t body);
  void keep_until_taken(graph::NodeId, int to, std::uint16_t body);
  void send(graph::TensorId, int to, BufferIndex, std::uint16_t body);
  BufferIndex receive(graph::TensorId, std::uint16_t body);
  [[nodiscard]] bool travels_summed(graph::TensorId, int reader) const;
  void send_sums();
  [[nodiscard]] std::uint16_t body_receiving(graph::TensorId, std::uint16_t body) const;
  [[nodiscard]] std::vector<int> stages_reading(graph::TensorId) const;
  [[nodiscard]] int stage_of_tensor(graph::TensorId) const;
  [[nodiscard]] std::int32_t message(int other_stage, std::uint32_t channel);
  [[nodiscard]] std::uint32_t channel(graph::TensorId, int to_stage) const;

  std::vector<Bucket> buckets_;
  std::unique_ptr<DealtGradients> dealt_gradients_;
  std::unique_ptr<GatheredParameters> gathered_parameters_;
  std::map<graph::TensorId, std::size_t> bucket_of_;
  std::map<std::size_t, BufferIndex> narrow_buckets_;     ///< summed in fewer bits, and not yet read
  std::map<std::size_t, Compressed> compressed_buckets_;  ///< gathered, and not yet decoded
  std::set<graph::TensorId> travels_compressed_;          ///< gradients that do
  std::map<graph::TensorId, BufferIndex> part_of_bucket_, accumulators_;
  std::set<graph::TensorId> time_summed_;                      ///< tensors that some consumer wants summed over micro-batches
  std::vector<std::pair<graph::TensorId, int>> sums_to_send_;  ///< over micro-batches, with the stage that reads them
  std::map<std::pair<BufferIndex, WeightVersion>, BufferIndex> versions_;
  std::map<graph::TensorId, int> into_storage_;               ///< updated tensors that do not lie as they are stored
  std::set<graph::NodeId> placed_;                            ///< nodes of the update that the pass of all others leaves out
  std::set<int> lowered_;                                     ///< any-stage nodes already emitted
  std::map<graph::TensorId, BufferIndex> stashes_, at_work_;  ///< of results; of state that lives on the host
  std::map<graph::TensorId, Format> stashed_formats_;
  std::set<graph::TensorId> restored_;
  std::map<const AttentionRing*, BufferIndex>
      row_sums_;  ///< largest scores and sums of exponentials: what the backward pass needs of a softmax
  Dependency last_stash_, awaited_stash_;
  bool has_stash_ = false, stash_awaited_ = true;  ///< false: what computes next must wait for awaited_stash_
  bool fetching_ahead_ = false;
  std::map<std::pair<BufferIndex, std::uint16_t>, BufferIndex> rounded_sums_;  ///< in 16 bits, for what does not read f32
};

}  // namespace rehearsal::plan
