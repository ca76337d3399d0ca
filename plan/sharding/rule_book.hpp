#pragma once
// Which logical dimensions each axis of a plan splits. Found from what operators do with them, not from names of models.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "plan/sharding/sharding.hpp"

namespace rehearsal::plan {

/// What the dimensions of a model's weights and activations are used for.
struct DimensionUse {
  /// Candidates of tensor parallelism, alike ones (of repeated layers) together. Not the residual stream: several operators need it whole,
  /// and splitting it would gather it before each of them. It counts where there is nothing else.
  std::vector<std::vector<graph::AtomId>> weights;
  std::vector<graph::AtomId> sequence;  ///< rows of most products with weights, other than the batch
  std::size_t image_axes = 0;           ///< axes of an input along which windows slide
  std::vector<graph::AtomId> experts;   ///< counted by weights, activations and results of a product alike
  std::set<graph::AtomId> of_experts;   ///< of `weights`, those of matrices that experts have one each of
  std::set<graph::AtomId> of_tables;    ///< of `weights`, the rows of large tables that words are looked up in and no product has
};
/// How axes of a mesh share out a graph that can run so.
struct KnownSharding {
  std::vector<MeshAxis> axes;
  bool fused = false;  ///< attention, where it can be
  std::shared_ptr<const Sharding> sharding;
};

/// What has been found for one graph: a search asks for the same again and again.
struct RuleBook {
  std::string model_hash;
  std::optional<DimensionUse> use;
  std::map<int, std::vector<std::string>> tensor;  ///< by degree: names of the dimensions that tensor parallelism splits
  std::vector<KnownSharding> shardings;            ///< the last few: plans that differ in schedule and recomputation follow each other
};

/// Does the optimizer keep anything of a parameter besides it?
[[nodiscard]] bool keeps_state(const graph::TrainingGraph&);
[[nodiscard]] DimensionUse use_of_dimensions(const graph::TrainingGraph&, const graph::LogicalDims&);

/// Axes of a plan's mesh, outer to inner, micro-batches among them. Pipeline stages are no axis: they distribute nodes.
/// Tensor parallelism takes the groups of dimensions that make the step cheapest, one after the other (work shared out against bytes moved,
/// at 1000 FLOP a byte), and two whatever they cost, since who asks for it wants them split: experts' matrices, which nearly all parameters
/// of a mixture are (Megatron-Core: expert_tensor_parallel_size is tensor_model_parallel_size where nothing is said), and the rows of large
/// tables of words (Megatron-Core's VocabParallelEmbedding, torchtitan's row-wise embedding) where no product has them, too.
/// Throws Refusal when the model has no dimension that an axis could split.
[[nodiscard]] std::vector<MeshAxis> sharding_axes(const graph::TrainingGraph&, const std::shared_ptr<const graph::LogicalDims>&,
                                                  const Plan&, int micro_batches, RuleBook&);

}  // namespace rehearsal::plan
