#pragma once
// A role while it is written: its bodies, its buffers, and instructions with what they wait for. What goes into it is
// plan/lowering/role_builder.hpp.

#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "plan/lowering/lowering.hpp"
#include "plan/recompute/recompute.hpp"
#include "plan/recompute/stashing.hpp"
#include "plan/schedules/pipeline.hpp"
#include "plan/schedules/stages.hpp"

namespace rehearsal::plan {

/// What all roles of a program are built from.
struct LoweringContext {
  const graph::TrainingGraph& training;
  const Plan& plan;
  const Backend& backend;
  const LoweringOptions& options;
  const Sharding& sharding;
  const StageAssignment& stages;
  const Pipeline& pipeline;
  const Program& program;  ///< batch, axes and micro-batches are set
  std::vector<std::vector<graph::NodeId>> consumers;
  std::size_t time_axis = 0;           ///< into sharding.axes; sharding.axes.size() when there is none
  std::vector<std::size_t> mesh_axis;  ///< [axis of the sharding]: into program.axes
  Recomputation recomputation;         ///< stashed results are dropped, too
  Stashing stashing;
  std::map<graph::NodeId, std::vector<graph::TensorId>> stashed_after;  ///< by the last node of the forward pass that uses them
  std::vector<std::vector<CollectiveLinks>> links;                      ///< [axis of the Program]; empty: not known
  std::vector<bool> of_weights;  ///< [node]: computed from weights alone; empty unless steps use weights of different ages
  /// Algorithms by kind of collective, axis of the Program and bytes: buckets of gradients are of few sizes.
  mutable std::map<std::tuple<CollectiveKind, std::size_t, std::int64_t>, std::string_view> quickest = {};
};

/// Nodes that run once a step where there is a flush, and read what is trained.
[[nodiscard]] std::vector<bool> nodes_of_weights(const graph::TrainingGraph&, const Sharding&);

/// What one rank does of the pipeline, or of one of its copies: the second one goes from the last stage to the first.
struct RolePlace {
  int stage = 0;
  int rank = 0;  ///< stands for the role
  int copy = 0;
};

class RoleDraft {
 public:
  RoleDraft(const LoweringContext& context, const RolePlace& place);
  RoleDraft(const RoleDraft&) = delete;
  RoleDraft& operator=(const RoleDraft&) = delete;

  [[nodiscard]] Role& role() { return role_; }
  /// Empty bodies, in the order in which a micro-batch passes them.
  void open_bodies();

 protected:
  ~RoleDraft() = default;

  /// A tensor in one of its layouts and formats. `conversion` -1: as produced; `whole`: of all micro-batches (inputs before the loop).
  struct Key {
    graph::TensorId tensor;
    int conversion = -1;
    Format format = Format::Plain;
    bool whole = false;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Writer {
    std::uint16_t body = 0;
    std::uint32_t instruction = 0;
    Stream stream = Stream::Compute;
    bool known = false;
  };

  // Bodies
  [[nodiscard]] BodyKind kind(std::uint16_t body) const { return role_.bodies[body].kind; }
  [[nodiscard]] bool runs_here(graph::NodeId) const;
  [[nodiscard]] std::uint16_t body_of(graph::NodeId) const;
  [[nodiscard]] bool runs_late(std::uint16_t body) const;
  [[nodiscard]] std::uint16_t last_of_backward(std::uint16_t body) const;
  [[nodiscard]] graph::Phase phase_in(std::uint16_t body) const;
  [[nodiscard]] Lifetime lifetime_in(std::uint16_t body) const;
  [[nodiscard]] bool is_bidirectional() const { return c_.pipeline.copies > 1; }

  // Buffers
  BufferIndex new_buffer(Buffer buffer, const Key* key);
  /// Where a tensor lies as it was produced, or converted, in a format that is not a kernel's own; kNoBuffer: nowhere.
  [[nodiscard]] BufferIndex lies_at(graph::TensorId, int conversion = -1) const;
  [[nodiscard]] BufferIndex new_workspace(const std::string& node, Bytes size);
  /// A vector of its own, which has no layout.
  BufferIndex new_vector(std::string name, DType, std::int64_t elements, MemoryCategory, Lifetime);
  [[nodiscard]] Buffer describe(graph::TensorId, const Layout&, const std::vector<graph::Shape>& shapes, std::uint16_t body) const;
  [[nodiscard]] Buffer describe(graph::TensorId t, const Layout& layout, std::uint16_t body) const {
    return describe(t, layout, shapes_of(t, layout), body);
  }
  /// As its producer leaves it.
  [[nodiscard]] Buffer describe(graph::TensorId t, std::uint16_t body) const { return describe(t, c_.sharding.layout(t), body); }
  /// A copy of its own of a buffer or a view.
  [[nodiscard]] static Buffer by_itself(Buffer);
  static void set_bytes(Buffer&);  ///< by type and shapes
  /// The same elements in another type.
  [[nodiscard]] static Buffer retyped(Buffer, DType);
  [[nodiscard]] Buffer describe_operand(graph::NodeId user, std::size_t operand, const Layout&, std::uint16_t body) const;
  [[nodiscard]] std::vector<graph::Shape> shapes_of(graph::TensorId, const Layout&) const;
  [[nodiscard]] BufferIndex base(BufferIndex) const;
  [[nodiscard]] bool is_written_before(BufferIndex, std::uint16_t body) const;
  void note_cross_body_use(BufferIndex, std::uint16_t body);

  // Instructions
  [[nodiscard]] Instruction instruction(InstructionKind, graph::TensorId, std::uint16_t body, std::vector<BufferIndex> inputs,
                                        std::vector<BufferIndex> outputs) const;
  /// Adds it to the end of a body, behind what other streams write of its operands; returns its number there.
  std::uint32_t append(std::uint16_t body, Instruction instruction);
  void add_dependencies(Instruction& instruction, std::uint16_t body) const;

  const LoweringContext& c_;
  const graph::Graph& g_;
  int stage_;                    ///< as the nodes' parts count them: of the second copy, from its own beginning
  int direction_ = 1;            ///< in which ranks the copy's later stages lie
  std::vector<Coordinates> at_;  ///< coordinates that stand for every variant
  Role role_;
  std::uint16_t prologue_ = 0, exchange_ = 0, update_ = 3;   ///< exchange_: only where the model is on two stages
  std::uint16_t meeting_ = 0;                                ///< only where replicas train by themselves
  std::vector<std::uint16_t> forward_, backward_, weights_;  ///< by chunk; weights_ is empty unless the schedule splits backward passes
  std::map<Key, BufferIndex> buffers_;
  std::vector<Writer> writers_;               ///< by base buffer
  std::vector<std::vector<Writer>> readers_;  ///< by base buffer, since it was last written
  std::vector<std::uint16_t> home_;           ///< body in which a base buffer is first written
  bool once_a_step_ = false;                  ///< what is emitted now serves all micro-batches
  bool again_ = false;                        ///< what is emitted now is recomputation
  During during_ = During::Training;          ///< in which what is emitted now runs
};

}  // namespace rehearsal::plan
