#pragma once
// A model with its chains of equal blocks cut down to two blocks each: small enough to be split anew for every plan. A GPT of 96 layers has
// 2 layers here, and every question about one of its layers is answered by the second of them.

#include <memory>
#include <vector>

#include "graph/dims/dims.hpp"
#include "graph/repeated_spans.hpp"
#include "graph/training.hpp"
#include "plan/sharding/rule_book.hpp"
#include "plan/sharding/sharding.hpp"
#include "predict/frameworks/flow.hpp"
#include "predict/frameworks/framework_job.hpp"
#include "predict/predictor.hpp"

namespace rehearsal::predict::frameworks {

/// How finely a model is looked at.
enum class Grain : std::uint8_t {
  Blocks,  ///< repeated blocks once
  Nodes,   ///< every node by itself, recurrences aside: what stages of networks without a chain of blocks are cut between
};

/// Into how many parts each kind of parallelism splits one micro-batch.
struct Degrees {
  double micro_batch = 1;  ///< samples of one replica; below 1 the work of one sample is shared out
  int tp = 1, cp = 1, ep = 1;
  bool sequence_parallel = false;
  bool whole_experts = false;  ///< ranks of `tp` have other experts, whole ones; `ep` counts those beside them
  friend auto operator<=>(const Degrees&, const Degrees&) = default;
};

class FoldedModel {
 public:
  FoldedModel(graph::Graph whole, Grain grain);
  FoldedModel(const FoldedModel&) = delete;
  FoldedModel& operator=(const FoldedModel&) = delete;

  [[nodiscard]] const graph::Graph& whole() const { return whole_; }
  /// Of the nodes of whole().
  [[nodiscard]] const std::vector<graph::Span>& spans() const { return spans_; }
  /// The forward nodes that are left. Its parameters are those of the blocks that are left.
  [[nodiscard]] const graph::Graph& graph() const { return training_.graph; }
  [[nodiscard]] const Flow& flow() const { return *flow_; }
  /// Node of graph() that stands for the `offset`-th node of every repetition of a span.
  [[nodiscard]] std::size_t node(std::size_t span, std::size_t offset) const { return nodes_[span][offset]; }
  /// Whether all repetitions of a span read one tensor there.
  [[nodiscard]] bool read_by_all(std::size_t span, std::size_t offset, std::size_t input) const;
  /// Samples that the shapes of graph() are for.
  [[nodiscard]] std::int64_t batch() const { return training_.batch; }
  [[nodiscard]] SplitLimits limits() const;
  /// Has an operator that slides windows over an image.
  [[nodiscard]] bool has_convolution() const { return flow_->has_convolution(); }

  /// Samples of a rank under shard(); below 1 some ranks that share experts have one and others none.
  [[nodiscard]] double samples(const Degrees&) const;
  /// Who has which part of every tensor. Throws Refusal naming the degree that no operator can use.
  [[nodiscard]] plan::Sharding shard(const Degrees&) const;

 private:
  void deal_out_experts(std::vector<plan::MeshAxis>& axes) const;

  graph::Graph whole_;
  std::vector<graph::Span> spans_;
  graph::TrainingGraph training_;
  std::vector<std::vector<std::size_t>> nodes_;  ///< [span][offset]
  std::unique_ptr<const Flow> flow_;
  std::shared_ptr<const graph::LogicalDims> dims_;
  std::shared_ptr<plan::RuleBook> rules_ = std::make_shared<plan::RuleBook>();
};

/// Stages of an image network, or of one without a chain of blocks, are cut between any two nodes, those of a chain between blocks.
[[nodiscard]] Grain grain_of(const FoldedModel&, const FrameworkJob&);

}  // namespace rehearsal::predict::frameworks
