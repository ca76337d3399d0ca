#pragma once
// One forward node as rows of work for its forward and backward pass on one rank.

#include "costmodel/matmul_tiles.hpp"
#include "graph/op_schema.hpp"
#include "predict/frameworks/flow.hpp"
#include "predict/frameworks/job.hpp"
#include "predict/frameworks/part.hpp"

namespace rehearsal::predict::frameworks {

/// What the rows of a node depend on besides the node.
struct RowSetting {
  const graph::Graph& graph;
  const Flow& flow;
  const AnalyticJob& job;
  bool fused_attention = false;
};

/// Collects the rows of one part.
class RowCollector {
 public:
  RowCollector(const RowSetting& setting, Part& part) : s_(setting), part_(part) {}
  /// Adds node number `n`.
  void add(std::size_t n);

 private:
  struct Pass {
    double bytes = 0, launches = 1;
  };
  void matmul(const graph::Node&, std::size_t n);
  void recurrent_step(const costmodel::MatmulShape&, std::size_t n);
  void attention_product(const graph::Node&);
  void fused_attention(const AttentionCore&);
  void scores(const AttentionCore&);
  void convolution(const graph::Node&);
  void dense_convolution(const graph::Node&, const graph::NodeView&);
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
  void keep(graph::TensorId, bool attention = false);

  void product(costmodel::RateKind, const costmodel::MatmulShape&, bool data_gradient, bool weight_gradient);
  void bytes(Pass forward, Pass backward, costmodel::RateKind = costmodel::RateKind::Elementwise);
  [[nodiscard]] double local_bytes(graph::TensorId) const;
  [[nodiscard]] double local_elements(graph::TensorId) const;
  [[nodiscard]] double share_of(graph::TensorId) const;
  [[nodiscard]] double passes_saved_by_chains(const graph::Node&) const;
  [[nodiscard]] bool image_tensor(graph::TensorId t) const;
  [[nodiscard]] int fusion() const { return s_.job.framework.elementwise_fusion; }
  [[nodiscard]] int element_bytes() const { return s_.job.precision.element_bytes; }

  const RowSetting& s_;
  Part& part_;
  std::vector<graph::TensorId> kept_;
};

}  // namespace rehearsal::predict::frameworks
