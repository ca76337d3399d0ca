#pragma once
// What every rank does in one training step, once. sim/ plays it on a modelled cluster, exec/ on MPI ranks.
// Plain data: numbers and names, so that it can be stored and sent. Who owns which elements is the Sharding, which follows from graph and
// plan; it is kept beside the instructions for those who copy elements.
//
// A Program has roles (classes of ranks that do the same on blocks of the same size). A role has bodies: straight lists of
// instructions, run once per micro-batch (forward, backward) or once per step (prologue, update), in the order of its slots.
// Loops over micro-batches thus stay loops.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "costmodel/collective_kind.hpp"
#include "graph/graph.hpp"
#include "plan/format.hpp"
#include "plan/plan.hpp"
#include "plan/sharding/redistribution.hpp"

namespace rehearsal::graph {
struct OpSchema;
}

namespace rehearsal::plan {

/// What micro-batches' results of a type are added up in. Of as many addends as a sum has bits of its own, further ones are lost.
[[nodiscard]] constexpr DType sum_type(DType addend) { return addend == DType::BF16 || addend == DType::F16 ? DType::F32 : addend; }

enum class InstructionKind : std::uint8_t {
  Kernel,      ///< one node's kernel
  Reorder,     ///< inputs[0] in another format to outputs[0]
  Accumulate,  ///< outputs[0] of sum_type() += inputs[0], packed as a redistribution says where there is one; the first micro-batch
               ///< copies instead
  Slice,       ///< outputs[0] = this rank's block of inputs[0]: no message
  Mask,        ///< outputs[0] = inputs[0] on coordinate 0 of an axis, zero on the others: a whole tensor becomes a sum
  Pack,        ///< outputs[0], the vector of redistributions, from this rank's parts, inputs: each of the next one of the role's list
  Unpack,      ///< outputs, this rank's new parts, from the vector inputs[0] and (exchanges, of which there is one) the old part inputs[1]
  Send,        ///< inputs[0] to another rank
  Receive,     ///< outputs[0] from another rank
  Collective,  ///< in place on outputs[0] (= inputs[0]) within a group of ranks; where there is inputs[1], the number of the step, counted
               ///< from 1: in the first step and in every CollectiveInfo::every-th behind it
  Load,        ///< outputs[0] from the data loader: this rank's block of this micro-batch
  Report,      ///< inputs[0], one f64, is this step's loss
  Stash,       ///< outputs[0], where and how inputs[0] waits until it is wanted again: see Buffer::on_host and plan/recompute/stashing.hpp
  Restore,     ///< outputs[0] as it was, or nearly so, from its stash inputs[0]
  Compress,    ///< outputs[0], what ranks exchange first (this rank's block of it where they gather), from its gradients, inputs, by the
               ///< plan's compressor; what one that remembers has kept of each, the other outputs and as many inputs behind the gradients
  Decompress,  ///< outputs, sums of gradients over the ranks, from what all of them sent, inputs[0]; from two factors, inputs[0] and
               ///< inputs[1], and the gradients themselves, the other inputs: what is kept of each is an output, too
  Recompress,  ///< outputs[0], the second factors of gradients, from the sum of the first ones, inputs[0], and the gradients, the others;
               ///< or this rank's block of the sum from what all sent it, inputs[0], and what it keeps of that, the other input and output
};
inline constexpr int kInstructionKinds = static_cast<int>(InstructionKind::Recompress) + 1;
[[nodiscard]] std::string_view name(InstructionKind);

/// Instructions of one stream run in order; streams run beside each other.
enum class Stream : std::uint8_t { Compute, Collective, Send, Receive, Host, Count };
[[nodiscard]] std::string_view name(Stream);

/// In which of a role's micro-batches an instruction of a per-micro-batch body runs.
enum class When : std::uint8_t { Always, FirstMicroBatch, LastMicroBatch, AllButLastMicroBatch };

/// In which steps of a training an instruction runs.
enum class During : std::uint8_t {
  Training,   ///< all of them
  Exact,      ///< the first Plan::exact_steps
  Later,      ///< those behind them
  Meetings,   ///< every Plan::local_steps of those
  Partings,   ///< the first of those, and the first that a training goes on with
  Renewals,   ///< those in which is made anew what is made every few steps
  Consensus,  ///< none: when all replicas are to have the same weights, behind a meeting that leaves them apart
};
inline constexpr std::array<std::string_view, 7> kDuringNames{"training", "exact steps", "later steps", "meetings",
                                                              "partings", "renewals",    "consensus"};
struct StepKind {
  bool later = true, meets = false, parts = false, agrees = false, renews = true;
};

enum class BodyKind : std::uint8_t {
  Prologue,  ///< once per step, before the first micro-batch
  Forward,
  Backward,
  Update,  ///< once per step, after the last micro-batch
};
[[nodiscard]] constexpr bool per_micro_batch(BodyKind kind) { return kind == BodyKind::Forward || kind == BodyKind::Backward; }
[[nodiscard]] std::string_view name(BodyKind);

/// Where the bytes of a buffer go in a memory report.
enum class MemoryCategory : std::uint8_t {
  Parameters,
  Gradients,
  OptimizerState,
  Statistics,
  Activations,
  Inputs,
  Workspace,
  Communication,
  Count
};
[[nodiscard]] std::string_view name(MemoryCategory);

enum class Lifetime : std::uint8_t {
  Persistent,  ///< from step to step: parameters, slots, running statistics, constants
  Step,        ///< within one step: accumulated gradients, sums over micro-batches
  Saved,       ///< from a micro-batch's forward to its backward body: one instance per micro-batch in flight
  Transient,   ///< within one body
  Sent,        ///< until a stage other than the next takes it, micro-batches later: Buffer::versions instances, one after the other
};

/// In no other's place at any time.
[[nodiscard]] constexpr bool is_apart(Lifetime l) { return l == Lifetime::Persistent || l == Lifetime::Step || l == Lifetime::Sent; }

/// Without a flush weights exist in several versions; which one a reference means, counted in updates that made it.
enum class WeightVersion : std::uint8_t {
  Delayed,  ///< of the step that a slot belongs to, less Role::delay: what its passes compute with
  Newest,   ///< what an update starts from
  Next,     ///< what it makes
};

using BufferIndex = std::uint32_t;
inline constexpr BufferIndex kNoBuffer = 0xFFFFFFFFU;

/// A local tensor of a role. Micro-batches of two sizes (an uneven split) give two variants of shapes; there is one otherwise.
struct Buffer {
  graph::TensorId tensor = graph::TensorId::None;  ///< None: bucket, workspace
  std::string name;
  DType dtype = DType::F32;
  std::vector<graph::Shape> shapes;  ///< by variant, logical order
  Format format = Format::Plain;
  MemoryCategory category = MemoryCategory::Activations;
  Lifetime lifetime = Lifetime::Transient;
  std::int64_t bytes = 0;                    ///< of the largest variant
  BufferIndex part_of = kNoBuffer;           ///< a view into another buffer (a gradient in its bucket, a reshaped tensor)
  std::int64_t part_offset = 0;              ///< bytes into `part_of`
  std::int64_t offset = -1;                  ///< into the arena, set by the memory planner; Saved: of slot 0
  Layout layout;                             ///< by axis of the sharding; empty: no part of a tensor (bucket, message vector, workspace)
  graph::NodeId user = graph::NodeId::None;  ///< of constants and windows: whose operand it is, which decides the region
  std::uint16_t operand = 0;
  Turn turn;                  ///< of what goes round, or is made of it: one block of the dimension that `layout` leaves whole
  bool sent = false;          ///< read by an asynchronous Send: kept until its micro-batch has ended
  bool on_host = false;       ///< in the host's memory, an arena of its own, instead of the device's
  bool common = false;        ///< of a kept vector: the same on all replicas
  std::int32_t versions = 1;  ///< so many follow each other in memory: of weights version v, Sent micro-batch v, in place v mod versions
  WeightVersion version = WeightVersion::Delayed;  ///< that this view of such weights means
};

/// Refers to an earlier instruction of the same rank. Between two per-micro-batch bodies: of the same micro-batch;
/// otherwise the latest run of that instruction.
struct Dependency {
  std::uint16_t body = 0;
  std::uint32_t instruction = 0;
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

struct KernelInfo {
  std::string implementation;  ///< as the Backend named it
  std::vector<Format> input_formats, output_formats;
  std::int64_t workspace_bytes = 0;
  std::string op = {};  ///< row of the operator table that runs in place of the node's own; empty: the node's
};

struct MessageInfo {
  std::int32_t stage_offset = 0;  ///< +1: the next pipeline stage, -1: the previous one (same coordinates otherwise)
  std::uint32_t channel = 0;      ///< pairs a Send with its Receive on the other side
};

using costmodel::CollectiveKind;
using costmodel::kCollectiveKinds;
using costmodel::name;

struct CollectiveInfo {
  CollectiveKind kind = CollectiveKind::AllReduce;
  std::string algorithm;  ///< a row of the collective table
  std::uint8_t axis = 0;  ///< mesh axis whose group takes part
  /// Rank r has its part of each of these, and the vector is as long as all of them or a multiple of it; empty: block() of its elements.
  std::vector<DealtOut> dealt = {};
  std::int32_t redistribution = -1;  ///< into Role::redistributions, one of those that share the vector; -1: a sum over the ranks
  graph::LabelKind reduction = graph::LabelKind::Sum;  ///< of AllReduce, ReduceScatter: how two elements become one
  std::int32_t root = 0;                               ///< Broadcast, Reduce: coordinate of the rank that has the vector first, or last
  std::int32_t every = 1;                              ///< During::Renewals: steps from one to the next
  std::int32_t center = -1;                            ///< kServers: which vector of the center (collectives/meetings.hpp)
  bool received_behind = false;                        ///< AllToAll: the vector's first half is sent, the second is what arrives, by source
};

struct Instruction {
  InstructionKind kind = InstructionKind::Kernel;
  Stream stream = Stream::Compute;
  When when = When::Always;
  During during = During::Training;
  graph::Phase phase = graph::Phase::Forward;
  graph::NodeId node = graph::NodeId::None;        ///< Kernel: the node; others: None
  graph::TensorId tensor = graph::TensorId::None;  ///< Reorder, Send, Receive, Collective, Load: the (first) logical tensor
  std::vector<BufferIndex> inputs, outputs;        ///< kNoBuffer for absent optional ones
  BufferIndex workspace = kNoBuffer;
  std::vector<Dependency> after;  ///< on other streams; order within a stream is implied
  std::int32_t kernel = -1;       ///< into Role::kernels
  std::int32_t attributes = -1;   ///< into Role::attributes; -1: the node's own
  std::int32_t message = -1;      ///< into Role::messages
  std::int32_t collective = -1;   ///< into Role::collectives; Kernel: the broadcast of what one rank makes for all; Compress, Recompress:
                                  ///< the one of what they make; Decompress: the first one
  std::int32_t redistribution = -1;  ///< Pack, Unpack, Accumulate: into Role::redistributions, the first one
  std::int8_t axis = -1;             ///< Mask: of the sharding
  bool again = false;                ///< makes for the backward pass what the forward pass had made and dropped
};

struct Role;
struct Slot;
/// Kept from step to step beside the tensors of the model, and found nowhere else: what a compressor of gradients has not sent yet, the
/// momentum of replicas that meet.
[[nodiscard]] bool is_kept_vector(const Buffer&);
/// Its first slot that updates something; nullptr: none does.
[[nodiscard]] const Slot* first_update(const Role&);
/// The buffer that a view is a view of.
[[nodiscard]] BufferIndex base_of(const Role&, BufferIndex);
/// Moves between the device's memory and the host's.
[[nodiscard]] bool crosses_to_host(const Role&, const Instruction&);

struct Body {
  BodyKind kind = BodyKind::Forward;
  std::uint16_t chunk = 0;  ///< model chunk of interleaved schedules
  std::vector<Instruction> instructions;
  std::int32_t first = 0, every = 1;  ///< micro-batches that pass it: first, first + every, ...
};

/// One entry of a role's timetable.
struct Slot {
  std::uint16_t body = 0;
  std::int32_t micro_batch = 0;  ///< 0 for bodies that run once; those from Program::micro_batches on are of the steps that follow
};

/// Peak of a role's arena and what it is made of at the peak.
struct MemoryPlan {
  std::int64_t arena_bytes = 0;
  std::int64_t lower_bound_bytes = 0;     ///< largest live set: no layout can be smaller
  std::int64_t saved_stride = 0;          ///< bytes between the Saved instances of two micro-batches in flight
  std::int32_t in_flight = 1;             ///< Saved instances
  std::int64_t host_bytes = 0;            ///< of the arena in the host's memory
  std::int64_t host_saved_stride = 0;     ///< saved_stride there
  std::vector<std::int64_t> by_category;  ///< bytes, indexed by MemoryCategory; sums to arena_bytes with `Workspace` taking gaps
};

/// Bytes of a role whose buffers are not its tensors, as in Programs of frameworks.
struct MemoryOutline {
  std::int64_t resident = 0;      ///< all the time
  std::int64_t kept_by_pass = 0;  ///< from the forward pass of a micro-batch through a chunk to the end of its backward pass
  std::int64_t at_work = 0;       ///< between the first pass and the last, whatever pass is at work
  std::int64_t behind = 0;        ///< from the last pass to the end of the step: gradients that had no memory before, copies of an update
};

struct Role {
  int stage = 0;
  std::vector<Buffer> buffers;
  std::vector<KernelInfo> kernels;
  std::vector<graph::Attributes> attributes;  ///< of kernels that work on a block under a window, in place of their nodes'
  std::vector<MessageInfo> messages;
  std::vector<CollectiveInfo> collectives;
  std::vector<Redistribution> redistributions;
  std::vector<Body> bodies;
  std::vector<Slot> slots;
  std::vector<Slot> opening;                  ///< before the first of several steps without a flush: what their slots run ahead with
  std::int32_t delay = 0;                     ///< updates by which the weights that a step uses are older than the newest
  std::vector<std::int64_t> variant_samples;  ///< samples per micro-batch, by variant
  std::vector<std::uint8_t> variant_of;       ///< by micro-batch
  BufferIndex arrivals = kNoBuffer;           ///< what sums between ranks need beside their vectors (plan/collectives/message_arrivals.hpp)
  MemoryPlan memory;
  MemoryOutline outline;
};

struct MeshAxisInfo {
  std::string name;  ///< "dp", "pp"
  int size = 1;
  int stride = 1;  ///< ranks between neighbours along the axis
};

struct Program {
  std::string model_hash;
  Plan plan;
  DType dtype = DType::F32;
  std::int64_t batch = 0;  ///< global samples per step
  int ranks = 1;
  int micro_batches = 1;           ///< of the replica that has most: see micro_batches_of()
  std::vector<MeshAxisInfo> axes;  ///< innermost first, the product of sizes being `ranks`; then runs of them as one (with_joint_axes())
  std::vector<Role> roles;
  std::vector<std::uint32_t> role_of;  ///< by rank
  std::vector<std::string> warnings;   ///< operators that replicate, statistics that differ
  std::shared_ptr<const Sharding> sharding;

  [[nodiscard]] const Role& role(int rank) const { return roles[role_of[static_cast<std::size_t>(rank)]]; }
};

/// Coordinate of a rank along an axis.
[[nodiscard]] int coordinate(const Program&, int rank, std::size_t axis);
/// Ranks of the group of `rank` along an axis, in order of coordinate.
[[nodiscard]] std::vector<int> group(const Program&, int rank, std::size_t axis);
/// Of one rank, and of a role: where shares of the batch are uneven not all have Program::micro_batches.
[[nodiscard]] int micro_batches_of(const Program&, int rank);
[[nodiscard]] int micro_batches_of(const Program&, const Role&);
/// First sample and number of samples of a micro-batch of a rank, in the global batch.
struct SampleRange {
  std::int64_t first = 0, count = 0;
};
[[nodiscard]] SampleRange samples(const Program&, int rank, int micro_batch);
/// Row of a Kernel instruction, whose node it is not always that of.
[[nodiscard]] const graph::OpSchema& schema_of(const Role&, const Instruction&, const graph::Node&);
/// Of a node's own kernel that updates with a learning rate: an outer step (Plan::outer) has a rate of its own.
[[nodiscard]] bool follows_rate(const Role&, const Instruction&, const graph::Graph&);
/// Attributes of a Kernel instruction.
[[nodiscard]] const graph::Attributes& attributes_of(const Role&, const Instruction&, const graph::Node&);
/// Position of a rank on the axes of the sharding. `micro_batch` -1: of what is not split in time.
[[nodiscard]] Coordinates position(const Program&, int rank, int micro_batch);
/// What a buffer with a layout holds of its tensor on this rank.
[[nodiscard]] Region region(const Program&, const Buffer&, const Coordinates&);
/// The rank that a message of `rank` goes to or comes from.
[[nodiscard]] int peer(const Program&, int rank, const MessageInfo&);
/// Bytes that an instruction moves in a variant: of the sent, received or reduced buffer.
[[nodiscard]] std::int64_t message_bytes(const Role&, const Instruction&, std::size_t variant);

/// Identity of an instruction across interpreters, plans' imports and machines: what a Trace event is keyed by.
struct InstructionIdentity {
  InstructionKind kind = InstructionKind::Kernel;
  graph::Phase phase = graph::Phase::Forward;
  BodyKind body = BodyKind::Forward;
  std::int32_t node = -1, tensor = -1;
  std::int32_t micro_batch = 0;
  std::uint32_t ordinal = 0;  ///< position in its body: two reorders of one tensor differ
  friend auto operator<=>(const InstructionIdentity&, const InstructionIdentity&) = default;
};
[[nodiscard]] InstructionIdentity identity(const Role&, std::uint16_t body, std::uint32_t instruction, int micro_batch);

/// Does the plan's schedule let steps follow each other without a flush (PipeDream)? Slots then run ahead into later steps, and passes
/// use weights of earlier ones: different mathematics.
[[nodiscard]] bool crosses_steps(const Program&);
/// Of a body that runs once per micro-batch.
[[nodiscard]] int last_micro_batch(const Program&, const Role&, const Body&);
/// Which of a role's shapes a micro-batch has, those of steps that follow included.
[[nodiscard]] std::size_t variant_of_micro_batch(const Role&, int micro_batch);
/// The micro-batch in which an instruction of `slot` finds what it depends on (see Dependency).
[[nodiscard]] int micro_batch_of(const Program&, const Role&, const Slot& slot, const Dependency&);
/// Of Compress, Recompress and Decompress: the gradients that travel.
[[nodiscard]] std::span<const BufferIndex> gradients_of(const Instruction&);
/// True when the instruction runs for this micro-batch (see When) of a step of that kind (see During).
[[nodiscard]] bool runs(const Program&, const Role&, const Instruction&, int micro_batch, const StepKind& = {});
/// False of a kernel that another rank of a group runs for this one.
[[nodiscard]] bool takes_part(const Program&, int rank, const Instruction&);
/// Steps from one renewal (During::Renewals) to the next; 1 where there are none.
[[nodiscard]] int steps_between_renewals(const Program&);
/// Of a step, from 0. Whether it parts is for those to say who know where a training goes on.
[[nodiscard]] StepKind kind_of_step(const Plan&, std::int64_t step);
/// Elements of a collective's vector as its algorithm counts them: half of it where the other half is what arrives.
[[nodiscard]] std::int64_t elements_of_collective(const Role&, const Instruction&, std::size_t variant);
/// One rank for every stage, in order of stages: of those of the replica with most samples the one with most to compute in rings, then the
/// one with the largest blocks.
[[nodiscard]] std::vector<int> representatives(const Program&);

}  // namespace rehearsal::plan
