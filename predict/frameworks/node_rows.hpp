#pragma once
// One forward node as kernels of its forward and backward pass on one rank.

#include <map>
#include <optional>
#include <set>

#include "costmodel/matmul_tiles.hpp"
#include "predict/frameworks/folded_model.hpp"
#include "predict/frameworks/framework_job.hpp"
#include "predict/frameworks/model_part.hpp"

namespace rehearsal::predict::frameworks {

/// What the kernels of a node depend on besides the node.
struct RowSetting {
  const FoldedModel& model;
  const plan::Sharding& sharding;
  const FrameworkJob& job;
  const platforms::Device& device;
  costmodel::Precision precision;
  bool fused_attention = false;
  StepCapture capture;
  double used_slots = 1, expert_load = 1;  ///< as ModelParts has them
  plan::Coordinates at;                    ///< of a rank with the largest blocks

  std::optional<std::size_t> tokens_axis;  ///< of the ranks that share the sequences of a model with experts

  RowSetting(const FoldedModel&, const plan::Sharding&, const FrameworkJob&, std::size_t group);

  /// What the rank has of a tensor, as it is produced.
  [[nodiscard]] graph::Shape local(graph::TensorId) const;
  /// What the kernel of a node reads of an operand.
  [[nodiscard]] graph::Shape operand(std::size_t node, std::size_t operand) const;
  /// What of a node's work is the rank's. Experts choose among all tokens of a sample, which splits no sequence: frameworks have every rank
  /// of context parallelism do so for its own tokens (Megatron-Core's dispatchers).
  [[nodiscard]] double own_share(graph::NodeId) const;
  [[nodiscard]] double elements(graph::TensorId t) const { return static_cast<double>(graph::element_count(local(t))); }
  /// Of the rows of experts those that are in use.
  [[nodiscard]] double bytes(graph::TensorId t) const { return used_share(t) * elements(t) * precision.element_bytes; }
  [[nodiscard]] double used_share(graph::TensorId t) const { return used_slots < 1 && model.flow().of_slots(t) ? used_slots : 1; }
};

/// Passes over a tensor, and kernels, forward and backward.
struct PassRow;

/// Tensors that are counted once, whichever kernels read them.
struct CountedTensors {
  std::set<graph::TensorId> kept, quantised, cast;
};

/// Its result is a view of the operand, or made where it is used.
[[nodiscard]] bool is_free(const graph::Node&);

/// Collects the kernels of one part.
class RowCollector {
 public:
  /// `counted`: with those of other parts that one stage may have, too.
  RowCollector(const RowSetting& setting, Part& part, CountedTensors& counted) : s_(setting), part_(part), counted_(counted) {}
  /// Adds node number `n` of the folded model, the `offset`-th of the part. Backward kernels are collected in the order of the forward
  /// nodes; finish() turns them round.
  void add(std::size_t n, std::uint32_t offset);
  void finish();

 private:
  struct PassTraffic {
    double bytes = 0, launches = 1;
  };
  /// Products that a pass makes of one product's operands.
  struct Gradients {
    bool data = true, weight = true;
  };
  [[nodiscard]] double gradients_at(std::size_t n) const;
  void add_whole(std::size_t n, std::uint32_t offset);
  void matmul(const graph::Node&);
  void recurrent_step(const costmodel::MatmulShape&);
  [[nodiscard]] double products_of(const graph::Node&) const;
  void attention_product(const graph::Node&);
  [[nodiscard]] double keys_computed(const AttentionCore&, double all) const;
  void fused_attention(const AttentionCore&);
  [[nodiscard]] bool trains_projection(const graph::Node& second) const;
  void scores(const AttentionCore&);
  void convolution(const graph::Node&);
  void dense_convolution(const graph::Node&);
  void depthwise_convolution(double work, double bytes, bool data_gradient);
  void layout_conversions(double moved, bool data_gradient);
  void normalization(const graph::Node&);
  [[nodiscard]] std::vector<graph::TensorId> operands_of(const graph::Node&) const;
  [[nodiscard]] bool is_gate(graph::TensorId) const;
  void elementwise(const graph::Node&);
  void bias(const graph::Node&);
  void residual(const graph::Node&);
  void after_normalization(const graph::Node&);
  void movement(const graph::Node&);
  void pooling(const graph::Node&);
  void gather(const graph::Node&);
  void generic(const graph::Node&);
  void fan_in(const graph::Node&);
  void keep_operands(const graph::Node&);
  void keep(graph::TensorId, double share = 1);
  void keep_quantised(graph::TensorId);
  [[nodiscard]] graph::TensorId source_of(graph::TensorId) const;
  [[nodiscard]] bool wanted_again(const graph::Node&, graph::TensorId) const;
  [[nodiscard]] bool gates(const graph::Node&) const;
  [[nodiscard]] bool weighs_experts(const graph::Node&) const;

  void dense_product(const graph::Node&, const costmodel::MatmulShape&, Gradients);
  void cast(graph::TensorId activation);
  void product(costmodel::RateKind, const costmodel::MatmulShape&, Gradients);
  void bytes(PassTraffic forward, PassTraffic backward, costmodel::RateKind = costmodel::RateKind::Elementwise);
  void passes(const PassRow&, double size);
  void forward(const costmodel::CostRow&);
  void backward(const costmodel::CostRow&, bool weight_gradient = false);
  void count_flops(double forward, Gradients, double saving = 1);
  /// FLOPs of a convolution over those that its transform leaves of them.
  [[nodiscard]] double saving_of(const graph::Node&) const;
  [[nodiscard]] bool is_bias(const graph::Node&) const;
  [[nodiscard]] bool adds_whole(const graph::Node&) const;
  [[nodiscard]] bool is_residual(const graph::Node&) const;
  [[nodiscard]] bool may_share_kernel(const graph::Node&) const;
  [[nodiscard]] bool is_absorbed(const graph::Node&) const;
  /// What a kernel of several operators reads, and whether its backward pass reads it again.
  using Sources = std::map<graph::TensorId, bool>;
  void find_sources(const graph::Node&, bool value_needed, Sources&) const;
  void chain(const graph::Node&);
  [[nodiscard]] bool image_tensor(graph::TensorId t) const;
  [[nodiscard]] const graph::Graph& graph() const { return s_.model.graph(); }
  [[nodiscard]] const Flow& flow() const { return s_.model.flow(); }
  [[nodiscard]] int fusion() const { return elementwise_fusion(s_.job); }
  [[nodiscard]] int element_bytes() const { return s_.precision.element_bytes; }

  const RowSetting& s_;
  Part& part_;
  std::size_t node_ = 0;      ///< in the folded model
  std::uint32_t offset_ = 0;  ///< in the part
  CountedTensors& counted_;
};

}  // namespace rehearsal::predict::frameworks
