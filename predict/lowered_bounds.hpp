#pragma once
// What no step of our own execution falls below, found without lowering every plan: plans that split the layers alike run the same kernels,
// however many replicas and stages they have, whatever is sharded, recomputed or in which order stages work (but that updates read 16-bit
// gradients of one micro-batch as they are, and sums of several in f32). On devices of one kind the
// update counts, too, and where processors move messages themselves, sums of gradients and exchanges.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/collectives/collective.hpp"
#include "predict/assessment.hpp"
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
    double update = 0;                     ///< seconds, of weights that are not sharded
    double gradient_bytes = 0;             ///< of all parameters that are trained
    std::vector<LayerExchange> exchanges;  ///< within the passes, between ranks that share out layers
    [[nodiscard]] double bytes(const plan::Plan&) const;  ///< on the fullest stage at least
  };

  [[nodiscard]] Seconds shared_by_speed(const plan::Plan&, const PassCost&, double micro_batches) const;
  /// Seconds that ranks of a pipeline's stages are busy in the mean of them, on devices of one kind; 0 of others.
  [[nodiscard]] double of_mean_stage(const plan::Plan&, const PassCost&, int micro_batches);
  [[nodiscard]] static double update_of(const plan::Plan&, const PassCost&);
  [[nodiscard]] double sums_of(const plan::Plan&, const PassCost&, int micro_batches);
  [[nodiscard]] double exchanges_of(const plan::Plan&, const PassCost&) const;
  [[nodiscard]] const ReplicaLinks& links_of_replicas(const plan::Plan&);
  [[nodiscard]] const std::optional<PassCost>& pass_of(const plan::Plan&, std::int64_t samples);
  [[nodiscard]] std::optional<PassCost> lowered_pass(const plan::Plan& split, const std::vector<RankDevice>&) const;
  void add_exchanges(const plan::Program&, PassCost&) const;
  [[nodiscard]] PassCost measured(const plan::Program&, const std::vector<RankDevice>&) const;

  const Workload& job_;
  std::map<std::string, std::optional<PassCost>> known_;  ///< by how layers are split, and threads; nothing: cannot be lowered alone
  std::map<std::string, ReplicaLinks> links_;             ///< by degrees, groups and order
};

}  // namespace rehearsal::predict
