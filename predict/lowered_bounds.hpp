#pragma once
// What no step of our own execution falls below, found without lowering every plan: plans that split the layers alike run the same kernels,
// however many replicas and stages they have, whatever is sharded, recomputed or in which order stages work. Stages wait for each other as
// their schedule has it; where processors move messages themselves, sums of gradients, exchanges and sends count, too.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/collectives/collective.hpp"
#include "plan/schedules/stages.hpp"
#include "predict/assessment.hpp"
#include "predict/kernel_pipeline.hpp"
#include "predict/predictor.hpp"

namespace rehearsal::predict {

class LoweredBounds {
 public:
  explicit LoweredBounds(const Workload& job) : job_(job) {}

  /// No time is known of plans with uneven micro-batches. On several kinds of devices the quickest and the largest count.
  [[nodiscard]] Outlook outlook(const plan::Plan&);

 private:
  /// A collective of every micro-batch between ranks along an axis of the mesh that layers are split along.
  struct LayerExchange {
    std::string axis;
    plan::CollectiveKind kind = plan::CollectiveKind::AllReduce;
    double bytes = 0;
    graph::TensorId tensor = graph::TensorId::None;  ///< that it is about
    bool backward = false;
  };
  /// Of the ranks that share out what `zero` shards, and of those that have the same part of it.
  struct ReplicaLinks {
    plan::CollectiveLinks shards, copies;
  };
  /// A micro-batch on its way through all layers, on one of the ranks that share out their tensors.
  struct PassCost {
    Seconds kernels;                       ///< forward and backward, on the quickest kind of device
    std::vector<Seconds> by_kind;          ///< the same on every kind of device
    double working_bytes = 0;              ///< what the passes read and what stays from step to step: weights, constants
    double update_bytes = 0;               ///< what only updates use: optimizer state, weights in f32 beside those of 16 bits
    std::vector<PartPasses> of_node;       ///< by node, on the slowest of the ranks: what `kernels` is the sum of
    std::vector<double> update_of_node;    ///< seconds of the update, of weights that are not sharded
    std::vector<double> gradient_bytes;    ///< by trained parameter
    double samples_share = 1;              ///< of the batch that the model is written for: a micro-batch on all ranks that share it out
    std::vector<LayerExchange> exchanges;  ///< within the passes, between ranks that share out layers
    [[nodiscard]] double bytes(const plan::Plan&) const;  ///< on the fullest stage at least
  };

  [[nodiscard]] Seconds shared_by_speed(const plan::Plan&, const PassCost&, double micro_batches) const;
  /// By stage; of a pipeline of other devices, or of a schedule that is not followed here: empty.
  [[nodiscard]] std::vector<double> ends_of_stages(const plan::Plan&, const PassCost&, int micro_batches);
  void add_updates(const plan::Plan&, const PassCost&, const plan::StageAssignment&, std::vector<double>& ends) const;
  void add_sums(const plan::Plan&, const PassCost&, const plan::StageAssignment&, int micro_batches, std::vector<double>& ends);
  void add_exchanges_of(const plan::Plan&, const PassCost&, const plan::StageAssignment&, std::vector<PartPasses>&) const;
  void add_sends(const plan::Plan&, const PassCost&, const plan::StageAssignment&, std::vector<PartPasses>&) const;
  [[nodiscard]] std::optional<int> only_part(graph::TensorId, const plan::StageAssignment&) const;
  [[nodiscard]] std::vector<PartPasses> passes_of_parts(const plan::Plan&, const PassCost&, const plan::StageAssignment&) const;
  [[nodiscard]] const plan::StageAssignment& parts_of(const plan::Plan&, int parts);
  [[nodiscard]] const std::vector<ReplicaLinks>& links_of_replicas(const plan::Plan&);
  [[nodiscard]] const std::optional<PassCost>& pass_of(const plan::Plan&, std::int64_t samples);
  [[nodiscard]] std::optional<PassCost> lowered_pass(const plan::Plan& split, const std::vector<RankDevice>&) const;
  void add_nodes(const plan::Role&, const RoleCosts&, PassCost&) const;
  void add_exchanges(const plan::Program&, PassCost&) const;
  [[nodiscard]] PassCost measured(const plan::Program&, const std::vector<RankDevice>&) const;

  const Workload& job_;
  std::vector<std::vector<graph::NodeId>> consumers_;     ///< by tensor, once they are asked for
  std::map<std::string, std::optional<PassCost>> known_;  ///< by how layers are split, and threads; nothing: cannot be lowered alone
  std::map<std::pair<int, std::vector<std::string>>, plan::StageAssignment> cut_;  ///< by number of parts and the cuts that a plan names
  std::map<std::string, std::vector<ReplicaLinks>> links_;  ///< by degrees, groups and order, of the ranks of every stage
};

}  // namespace rehearsal::predict
